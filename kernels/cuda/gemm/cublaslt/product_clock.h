// SPDX-License-Identifier: Apache-2.0
// Times a GEMM, to choose its algorithm.
#pragma once

#include <functional>

#include "kernels/api/status.h"

namespace dunlin::kernels::cuda {

class ProductClock {
 public:
  virtual ~ProductClock() = default;
  // Seconds of the fastest of a few runs of what `enqueue` puts on the device's stream, with its operands out of the
  // caches, as a layer's weights are when a model runs. Infinity on failure.
  virtual double ColdSeconds(const std::function<KernelStatus()>& enqueue) = 0;
};

}  // namespace dunlin::kernels::cuda
