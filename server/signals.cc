#include "server/signals.h"

#include <csignal>

namespace dunlin::server {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool WaitForStopSignal(absl::Duration timeout) {
  const sigset_t signals = StopSignals();
  const timespec limit = absl::ToTimespec(timeout);
  return sigtimedwait(&signals, nullptr, &limit) > 0;
}

}  // namespace dunlin::server
