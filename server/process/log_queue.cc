// SPDX-License-Identifier: Apache-2.0
#include "server/process/log_queue.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dunlin::server {
namespace {

// Blocks while nobody reads. What cannot be written (a closed pipe, a full disk) is lost.
void WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd writable{descriptor, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace

struct LogQueue::State {
  State(int to, size_t limit) : descriptor(to), max_bytes(limit) {}

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stopping || !waiting.empty(); }
  bool Written() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return waiting.empty() && !writing; }

  void Run() {
    std::string batch;
    while (true) {
      {
        absl::MutexLock lock(&mutex);
        writing = false;
        mutex.Await(absl::Condition(this, &State::HasWork));
        if (stopping) return;
        batch.clear();
        batch.swap(waiting);
        writing = true;
      }
      WriteAll(descriptor, batch);
    }
  }

  const int descriptor;
  const size_t max_bytes;
  mutable absl::Mutex mutex;  // guards what follows; held for a copy of a line at most
  std::string waiting ABSL_GUARDED_BY(mutex);
  bool writing ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  uint64_t num_dropped ABSL_GUARDED_BY(mutex) = 0;
};

LogQueue::LogQueue(int descriptor, size_t max_bytes) : state_(std::make_shared<State>(descriptor, max_bytes)) {
  std::thread([state = state_] { state->Run(); }).detach();
}

LogQueue::~LogQueue() {
  absl::MutexLock lock(&state_->mutex);
  state_->stopping = true;
}

bool LogQueue::Push(std::string_view line) {
  absl::MutexLock lock(&state_->mutex);
  if (state_->waiting.size() + line.size() > state_->max_bytes) {
    ++state_->num_dropped;
    return false;
  }
  state_->waiting.append(line);
  return true;
}

bool LogQueue::Flush(absl::Duration limit) {
  absl::MutexLock lock(&state_->mutex);
  return state_->mutex.AwaitWithTimeout(absl::Condition(state_.get(), &State::Written), limit);
}

uint64_t LogQueue::num_dropped() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->num_dropped;
}

}  // namespace dunlin::server
