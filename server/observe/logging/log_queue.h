// SPDX-License-Identifier: Apache-2.0
// Log lines on their way to a file descriptor. The reader of a pipe may stop reading, and write(2) then blocks for
// ever; so a thread of the queue's own writes, and other threads only append to a bounded buffer. Thread rule: any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/time/time.h"

namespace dunlin::server {

struct LogLosses {
  uint64_t dropped = 0;    // lines for which there was no room
  uint64_t unwritten = 0;  // lines that the descriptor did not take in whole
  int error = 0;           // errno of the last write that failed; 0: none has
  bool writable = true;    // the last write succeeded
};

class LogQueue {
 public:
  // descriptor stays open; max_bytes bounds what waits, beside as much again that is being written.
  LogQueue(int descriptor, size_t max_bytes);
  // Does not wait: the thread ends when its write does, and what is not written by then is lost.
  ~LogQueue();
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  // Never blocks. False if there is no room: the line is dropped and counted. line: ends with a line break; may be
  // several.
  bool Push(std::string_view line);
  // Waits until everything pushed so far is written or lost; false if `limit` passed first.
  bool Flush(absl::Duration limit);
  LogLosses losses() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace dunlin::server
