// SPDX-License-Identifier: Apache-2.0
#include "server/observe/logging/log_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

// Writes the beginning of the text that the descriptor takes, and returns its bytes. Blocks while nobody reads; a
// closed pipe and a full disk take less than the whole: *error is why, else 0.
size_t WriteAll(int descriptor, std::string_view text, int* error) {
  *error = 0;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (written < 0 && errno == EAGAIN) {
      pollfd writable{descriptor, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      *error = written == 0 ? ENOSPC : errno;
      break;
    }
  }
  return done;
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
        batch = broken_line ? "\n" : "";  // what follows half a line begins one of its own
        batch.append(waiting);
        waiting.clear();
        writing = true;
      }
      int error = 0;
      const size_t written = WriteAll(descriptor, batch, &error);
      const size_t own = broken_line ? 1 : 0;  // the line break that is not of a line
      if (written > 0) broken_line = batch[written - 1] != '\n';
      NoteWritten(std::string_view(batch).substr(std::max(written, own)), error);
    }
  }

  void NoteWritten(std::string_view rest, int error) {
    absl::MutexLock lock(&mutex);
    losses.unwritten += static_cast<uint64_t>(std::count(rest.begin(), rest.end(), '\n'));
    losses.writable = error == 0;
    if (error != 0) losses.error = error;
  }

  const int descriptor;
  const size_t max_bytes;
  mutable absl::Mutex mutex;  // guards what follows; held for a copy of a line at most
  std::string waiting ABSL_GUARDED_BY(mutex);
  bool writing ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  LogLosses losses ABSL_GUARDED_BY(mutex);
  bool broken_line = false;  // of the thread: the last write ended within a line
};

LogQueue::LogQueue(int descriptor, size_t max_bytes) : state_(std::make_shared<State>(descriptor, max_bytes)) {
  std::thread([state = state_] {
    engine::NameThread("log");
    state->Run();
  }).detach();
}

LogQueue::~LogQueue() {
  absl::MutexLock lock(&state_->mutex);
  state_->stopping = true;
}

bool LogQueue::Push(std::string_view line) {
  absl::MutexLock lock(&state_->mutex);
  if (state_->waiting.size() + line.size() > state_->max_bytes) {
    ++state_->losses.dropped;
    return false;
  }
  state_->waiting.append(line);
  return true;
}

bool LogQueue::Flush(absl::Duration limit) {
  absl::MutexLock lock(&state_->mutex);
  return state_->mutex.AwaitWithTimeout(absl::Condition(state_.get(), &State::Written), limit);
}

LogLosses LogQueue::losses() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->losses;
}

}  // namespace dunlin::server
