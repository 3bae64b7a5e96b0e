// SPDX-License-Identifier: Apache-2.0
// Bounds the bytes of text that are tokenised at once. Tokenising takes up to 120 bytes of memory per byte, so this
// bounds the memory of all text threads together. A text larger than the whole budget waits until it is alone. Thread
// rule: any thread that may block.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dunlin::server {

class TextBudget {
 public:
  // Returns its bytes when destroyed.
  class Share {
   public:
    Share(TextBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
    ~Share() { budget_->Return(bytes_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    TextBudget* const budget_;
    const int64_t bytes_;
  };

  explicit TextBudget(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Waits until `bytes` fit, or nothing else is taken. First come, first served: small texts do not pass a large one.
  Share Take(int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    const uint64_t turn = next_turn_++;
    const auto is_next = [this, turn, bytes]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return turn == turn_ && (taken_ == 0 || taken_ + bytes <= max_bytes_);
    };
    mutex_.Await(absl::Condition(&is_next));
    ++turn_;
    taken_ += bytes;
    return Share(this, bytes);
  }

  int64_t taken() const {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }

 private:
  void Return(int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    taken_ -= bytes;
  }

  const int64_t max_bytes_;
  mutable absl::Mutex mutex_;  // guards what follows
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_turn_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;  // the caller that is admitted next
};

}  // namespace dunlin::server
