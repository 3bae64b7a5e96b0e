// SPDX-License-Identifier: Apache-2.0
// A token bucket for amounts per minute. It holds one minute's worth, which is also the longest burst, and refills
// continuously. What was taken beyond that is a debt, which the refill pays first. Exact: amounts are kept in parts of
// 1 / (60 * 10^9), so that a nanosecond refills a whole number of them. Time is an argument; time that goes back counts
// as none. Plain data; one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/numeric/int128.h"
#include "engine/request/types.h"

namespace dunlin::server {

class TokenBucket {
 public:
  using TimeNs = engine::TimeNs;
  static constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();

  // Full. per_minute >= 0; 0: it never holds anything.
  explicit TokenBucket(int64_t per_minute = 0) : per_minute_(per_minute) {}

  // What has been taken stays taken. REQUIRES: per_minute >= 0.
  void SetRate(int64_t per_minute, TimeNs now) {
    Refill(now);
    per_minute_ = per_minute;
  }
  int64_t per_minute() const { return per_minute_; }

  // Nanoseconds until `amount` >= 0 may be taken if nobody else takes any; 0: now. More than a minute's worth may be
  // taken from a full bucket, because it could be taken at no time else. kNever: the rate is 0.
  TimeNs WaitFor(int64_t amount, TimeNs now) {
    Refill(now);
    if (per_minute_ == 0) return kNever;
    return TimeToRefill(taken_ - Parts(per_minute_ - std::min(amount, per_minute_)));
  }
  // Takes `amount` >= 0, whatever there is.
  void Take(int64_t amount, TimeNs now) {
    Refill(now);
    taken_ = std::min(taken_ + Parts(amount), Parts(std::numeric_limits<int64_t>::max()));
  }
  // Gives back what was taken: at most to a full bucket. REQUIRES: amount >= 0.
  void GiveBack(int64_t amount) { taken_ = std::max(taken_ - Parts(amount), absl::int128(0)); }

  // Whole units that are left, >= 0.
  int64_t Remaining(TimeNs now) {
    Refill(now);
    return std::max(int64_t{0}, static_cast<int64_t>((Parts(per_minute_) - taken_) / kPartsPerUnit));
  }
  // Nanoseconds until it is full; 0 at a rate of 0, because nothing will come.
  TimeNs TimeToFull(TimeNs now) {
    Refill(now);
    return per_minute_ == 0 ? 0 : TimeToRefill(taken_);
  }

 private:
  static constexpr int64_t kPartsPerUnit = 60'000'000'000;  // nanoseconds of a minute

  static absl::int128 Parts(int64_t amount) { return absl::int128(amount) * kPartsPerUnit; }
  void Refill(TimeNs now) {
    if (now <= as_of_) return;
    taken_ = std::max(taken_ - (absl::int128(now) - as_of_) * per_minute_, absl::int128(0));
    as_of_ = now;
  }
  // REQUIRES: per_minute_ > 0.
  TimeNs TimeToRefill(absl::int128 parts) const {
    if (parts <= 0) return 0;
    return static_cast<TimeNs>(std::min((parts + per_minute_ - 1) / per_minute_, absl::int128(kNever - 1)));
  }

  int64_t per_minute_;
  absl::int128 taken_ = 0;  // and not refilled, >= 0
  TimeNs as_of_ = std::numeric_limits<TimeNs>::min();
};

}  // namespace dunlin::server
