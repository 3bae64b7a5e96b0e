// SPDX-License-Identifier: Apache-2.0
#include "server/process/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"

namespace dunlin::server {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Half of the manager's watchdog timeout; 0 if it set none, or set it for another process.
engine::TimeNs BeatPeriod() {
  int64_t limit_us = 0;
  int64_t pid = 0;
  if (!absl::SimpleAtoi(Environment("WATCHDOG_USEC"), &limit_us) || limit_us <= 0) return 0;
  if (absl::SimpleAtoi(Environment("WATCHDOG_PID"), &pid) && pid != getpid()) return 0;
  return limit_us * 1000 / 2;
}

}  // namespace

ServiceNotifier::ServiceNotifier() : socket_(Environment("NOTIFY_SOCKET")), beat_period_(BeatPeriod()) {}

void ServiceNotifier::Beat(engine::TimeNs now) {
  if (beat_period_ == 0 || now < next_beat_) return;
  next_beat_ = now + beat_period_;
  Send("WATCHDOG=1");
}

void ServiceNotifier::Reloading(engine::TimeNs now) const {
  Send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now / 1000));
}

void ServiceNotifier::Send(const std::string& state) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  sendto(descriptor, state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address), length);
  close(descriptor);
}

}  // namespace dunlin::server
