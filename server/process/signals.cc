// SPDX-License-Identifier: Apache-2.0
#include "server/process/signals.h"

#include <csignal>

namespace dunlin::server {
namespace {

sigset_t AwaitedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = AwaitedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a log file at its limit (ulimit -f) loses lines, not the server
}

SignalRequest WaitForRequest(absl::Duration timeout) {
  const sigset_t signals = AwaitedSignals();
  const timespec limit = absl::ToTimespec(timeout);
  const int signal = sigtimedwait(&signals, nullptr, &limit);
  if (signal <= 0) return SignalRequest::kNone;
  return signal == SIGHUP ? SignalRequest::kReload : SignalRequest::kStop;
}

}  // namespace dunlin::server
