// SPDX-License-Identifier: Apache-2.0
#include "tools/load/arrivals.h"

#include <cmath>

namespace dunlin::tools::load {

Arrivals::Arrivals(ArrivalKind kind, double rate, int64_t burst, uint64_t seed)
    : kind_(kind), rate_(rate), burst_(burst), random_(seed) {}

double Arrivals::Next() {
  const int64_t index = num_arrivals_++;
  switch (kind_) {
    case ArrivalKind::kPoisson:
      last_seconds_ += -std::log1p(-random_.Uniform()) / rate_;
      break;
    case ArrivalKind::kConstant:
      last_seconds_ = static_cast<double>(index) / rate_;
      break;
    case ArrivalKind::kBurst: {
      const int64_t first_of_burst = index / burst_ * burst_;
      last_seconds_ = static_cast<double>(first_of_burst) / rate_;
      break;
    }
  }
  return last_seconds_;
}

}  // namespace dunlin::tools::load
