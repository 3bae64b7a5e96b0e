// SPDX-License-Identifier: Apache-2.0
// Reports the server's state to a service manager, in the protocol of systemd's Type=notify: READY=1, RELOADING=1,
// STOPPING=1 and WATCHDOG=1 as datagrams to the socket that NOTIFY_SOCKET names. Without that variable everything is a
// no-op. Thread rule: one thread. Source: sd_notify(3), sd_watchdog_enabled(3).
#pragma once

#include <string>

#include "engine/request/types.h"

namespace dunlin::server {

class ServiceNotifier {
 public:
  // Reads NOTIFY_SOCKET, and WATCHDOG_USEC with WATCHDOG_PID for the manager's watchdog timeout.
  ServiceNotifier();

  void Ready() const { Send("READY=1"); }
  // Call Ready once the reload is done. now: monotonic.
  void Reloading(engine::TimeNs now) const;
  void Stopping() const { Send("STOPPING=1"); }
  // Sends a watchdog ping, at most twice per watchdog timeout, so it may be called at any rate. now: monotonic.
  void Beat(engine::TimeNs now);

 private:
  // Never blocks: a datagram that the manager cannot receive is lost.
  void Send(const std::string& state) const;

  std::string socket_;              // "/path" or "@abstract"; empty: no service manager
  engine::TimeNs beat_period_ = 0;  // 0: no watchdog
  engine::TimeNs next_beat_ = 0;
};

}  // namespace dunlin::server
