// Tells a service manager how the server stands, in the protocol of systemd's Type=notify: READY=1, RELOADING=1,
// STOPPING=1 and WATCHDOG=1 as datagrams to the socket that NOTIFY_SOCKET names. Without that variable everything is a
// no-op. Thread rule: one thread. Source: sd_notify(3), sd_watchdog_enabled(3).
#pragma once

#include <string>

#include "engine/types.h"

namespace dunlin::server {

class ServiceNotifier {
 public:
  // Reads NOTIFY_SOCKET, and WATCHDOG_USEC with WATCHDOG_PID for how often the manager wants to hear a beat.
  ServiceNotifier();

  void Ready() const { Send("READY=1"); }
  // Ready follows when it is done. now: monotonic.
  void Reloading(engine::TimeNs now) const;
  void Stopping() const { Send("STOPPING=1"); }
  // Says that the server lives, at most twice in the manager's limit, so it may be called as often as one likes.
  // now: monotonic.
  void Beat(engine::TimeNs now);

 private:
  // A manager that does not take a datagram loses it: the server does not wait for its supervisor.
  void Send(const std::string& state) const;

  std::string socket_;              // "/path" or "@abstract"; empty: nobody listens
  engine::TimeNs beat_period_ = 0;  // 0: no watchdog
  engine::TimeNs next_beat_ = 0;
};

}  // namespace dunlin::server
