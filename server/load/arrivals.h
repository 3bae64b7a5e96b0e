// When an open loop sends: a seeded schedule that does not look at the answers.
#pragma once

#include <cstdint>

#include "server/load/random.h"

namespace dunlin::server::load {

enum class ArrivalKind : uint8_t {
  kPoisson,   // independent clients: exponential gaps
  kConstant,  // equal gaps
  kBurst,     // `burst` at once, then silence, at the same rate on average
};

class Arrivals {
 public:
  // rate: requests a second, > 0. burst: >= 1, of kBurst.
  Arrivals(ArrivalKind kind, double rate, int64_t burst, uint64_t seed);

  // Seconds from the start to the next request: never falling. The first of kConstant and kBurst is at 0.
  double Next();

 private:
  const ArrivalKind kind_;
  const double rate_;
  const int64_t burst_;
  Random random_;
  int64_t num_given_ = 0;
  double last_seconds_ = 0;
};

}  // namespace dunlin::server::load
