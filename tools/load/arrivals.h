// SPDX-License-Identifier: Apache-2.0
// Arrival times of an open loop: a seeded schedule, independent of the responses.
#pragma once

#include <cstdint>

#include "tools/load/random.h"

namespace dunlin::tools::load {

enum class ArrivalKind : uint8_t {
  kPoisson,   // independent clients: exponential gaps
  kConstant,  // equal gaps
  kBurst,     // `burst` at once, then silence, at the same rate on average
};

class Arrivals {
 public:
  // rate: requests a second, > 0. burst: >= 1, of kBurst.
  Arrivals(ArrivalKind kind, double rate, int64_t burst, uint64_t seed);

  // Seconds from the start to the next request; non-decreasing. kConstant and kBurst begin at 0.
  double Next();

 private:
  const ArrivalKind kind_;
  const double rate_;
  const int64_t burst_;
  Random random_;
  int64_t num_arrivals_ = 0;
  double last_seconds_ = 0;
};

}  // namespace dunlin::tools::load
