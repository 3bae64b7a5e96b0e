// SPDX-License-Identifier: Apache-2.0
// Bounds log lines that strangers can cause: so many a second, and then their number. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"

namespace dunlin::server {

class LineRate {
 public:
  explicit LineRate(int max_lines_per_second) : max_lines_(max_lines_per_second) {}

  // Whether a line of this second is written; *left_out: how many were not since the last one that was.
  bool Take(int64_t second, int64_t* left_out) {
    const engine::MutexLock lock(&mutex_);
    if (second != second_) num_lines_ = 0;
    second_ = second;
    if (num_lines_ == max_lines_) {
      ++left_out_;
      return false;
    }
    ++num_lines_;
    *left_out = std::exchange(left_out_, 0);
    return true;
  }

 private:
  const int max_lines_;
  engine::Mutex mutex_;  // guards what follows
  int64_t second_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_lines_ ABSL_GUARDED_BY(mutex_) = 0;  // in that second
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dunlin::server
