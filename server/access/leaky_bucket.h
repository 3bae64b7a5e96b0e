// SPDX-License-Identifier: Apache-2.0
// What was added drains at a constant rate. Time is an argument; time that goes back counts as none. Plain data; one
// thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::server {

class LeakyBucket {
 public:
  // Empty. REQUIRES: 1 <= per_second <= 10^9.
  explicit LeakyBucket(int64_t per_second) : ns_per_unit_(1'000'000'000 / per_second) {}

  // Beyond `most` units it is not filled. REQUIRES: 0 <= amount <= 10^7, as `most`.
  void Add(int64_t amount, int64_t most, engine::TimeNs now) {
    empty_at_ = std::min(std::max(empty_at_, now) + amount * ns_per_unit_, now + most * ns_per_unit_);
  }
  void Remove(int64_t amount) { empty_at_ -= amount * ns_per_unit_; }
  // In whole units, >= 0.
  int64_t Level(engine::TimeNs now) const { return std::max<engine::TimeNs>(empty_at_ - now, 0) / ns_per_unit_; }

 private:
  engine::TimeNs ns_per_unit_;
  engine::TimeNs empty_at_ = 0;
};

}  // namespace dunlin::server
