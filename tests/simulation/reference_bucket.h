// SPDX-License-Identifier: Apache-2.0
// An amount per minute as docs/security.md describes it, in plain doubles: the oracle of Quota's buckets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/request/types.h"

namespace dunlin::simulation {

class ReferenceBucket {
 public:
  explicit ReferenceBucket(std::optional<int64_t> per_minute) : per_minute_(per_minute) {
    if (per_minute.has_value()) level_ = static_cast<double>(*per_minute);
  }

  void SetRate(std::optional<int64_t> per_minute, engine::TimeNs now) {
    Refill(now);
    if (!per_minute.has_value() || !per_minute_.has_value()) {
      *this = ReferenceBucket(per_minute);
      as_of_ = now;
      return;
    }
    level_ += static_cast<double>(*per_minute - *per_minute_);  // what was taken stays taken
    per_minute_ = per_minute;
  }
  // amount < 0: gives back.
  void Take(int64_t amount, engine::TimeNs now) {
    Refill(now);
    if (per_minute_.has_value())
      level_ = std::min(level_ - static_cast<double>(amount), static_cast<double>(*per_minute_));
  }
  // Whether `amount` is there; nullopt where rounding decides.
  std::optional<bool> Has(int64_t amount, engine::TimeNs now) {
    if (!per_minute_.has_value()) return true;
    if (*per_minute_ == 0) return false;
    Refill(now);
    const double missing = static_cast<double>(std::min(amount, *per_minute_)) - level_;
    if (missing > -kRounding && missing < kRounding) return std::nullopt;
    return missing < 0;
  }

 private:
  static constexpr double kRounding = 1e-6;

  void Refill(engine::TimeNs now) {
    if (per_minute_.has_value() && now > as_of_) {
      const auto most = static_cast<double>(*per_minute_);
      level_ = std::min(most, level_ + static_cast<double>(now - as_of_) / 60e9 * most);
    }
    as_of_ = std::max(as_of_, now);
  }

  std::optional<int64_t> per_minute_;
  double level_ = 0.0;
  engine::TimeNs as_of_ = 0;
};

}  // namespace dunlin::simulation
