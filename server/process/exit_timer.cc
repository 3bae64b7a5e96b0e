// SPDX-License-Identifier: Apache-2.0
#include "server/process/exit_timer.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>

namespace dunlin::server {
namespace {

volatile std::sig_atomic_t exit_status = 0;

void ExitNow(int /*signal*/) {
  _exit(exit_status);
}

}  // namespace

void ExitAfter(absl::Duration limit, int status) {
  exit_status = status;
  std::signal(SIGALRM, &ExitNow);
  const itimerval timer{{0, 0}, absl::ToTimeval(limit)};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace dunlin::server
