// How long a product takes, for the choice of its algorithm.
#pragma once

#include <functional>

#include "kernels/api/status.h"

namespace dunlin::kernels::cuda {

class ProductClock {
 public:
  virtual ~ProductClock() = default;
  // Seconds of the quickest of a few runs of what `enqueue` puts on the device's stream, none of whose operands the
  // caches hold: a layer's weights come from memory. Infinity where it fails.
  virtual double ColdSeconds(const std::function<KernelStatus()>& enqueue) = 0;
};

}  // namespace dunlin::kernels::cuda
