// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/line_input.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace dunlin::cli {
namespace {

constexpr int kInterruptStatus = 128 + SIGINT;

sigset_t OnlyInterrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t signals = OnlyInterrupt();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  descriptor_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

Interrupts::~Interrupts() {
  close(descriptor_);
  const sigset_t signals = OnlyInterrupt();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

bool Interrupts::Take() {
  signalfd_siginfo info;
  return read(descriptor_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info));
}

void Interrupts::EndProcess() {
  signal(SIGINT, SIG_DFL);
  const sigset_t signals = OnlyInterrupt();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  raise(SIGINT);
  _exit(kInterruptStatus);
}

bool LineInput::TakeLine(std::string* line) {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos && (!ended_ || buffer_.empty())) return false;
  *line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  return true;
}

LineInput::Event LineInput::Next(std::string* line) {
  for (;;) {
    if (interrupts_.Take()) {
      buffer_.clear();
      return Event::kInterrupted;
    }
    if (TakeLine(line)) return Event::kLine;
    if (ended_) return Event::kEnd;
    pollfd sources[] = {{descriptor_, POLLIN, 0}, {interrupts_.descriptor(), POLLIN, 0}};
    if (poll(sources, 2, -1) < 0 && errno != EINTR) ended_ = true;
    if (sources[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = read(descriptor_, bytes, sizeof(bytes));
    if (count > 0) buffer_.append(bytes, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  }
}

}  // namespace dunlin::cli
