// SPDX-License-Identifier: Apache-2.0
// Bounds the bytes of what is done at once, over all threads: of texts that are tokenised, up to 120 bytes of memory
// for each, or of the values that JSON becomes. What is larger than the whole budget waits until it is alone. Thread
// rule: any thread that may block.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

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
    Await(bytes, absl::InfiniteFuture());
    return Share(this, bytes);
  }
  // The same until the deadline. False: nothing is taken.
  [[nodiscard]] bool TakeUntil(absl::Time deadline, int64_t bytes, std::optional<Share>* share) {
    if (!Await(bytes, deadline)) return false;
    share->emplace(this, bytes);
    return true;
  }

  int64_t taken() const {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }

 private:
  bool Await(int64_t bytes, absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    const uint64_t turn = next_turn_++;
    waiting_.insert(turn);
    const auto is_next = [this, turn, bytes]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return turn == *waiting_.begin() && (taken_ == 0 || taken_ + bytes <= max_bytes_);
    };
    const bool fits = mutex_.AwaitWithDeadline(absl::Condition(&is_next), deadline);
    waiting_.erase(turn);
    if (fits) taken_ += bytes;
    return fits;
  }
  void Return(int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    taken_ -= bytes;
  }

  const int64_t max_bytes_;
  mutable absl::Mutex mutex_;  // guards what follows
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_turn_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);  // turns, in the order in which they came
};

}  // namespace dunlin::server
