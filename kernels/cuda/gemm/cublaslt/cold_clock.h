// SPDX-License-Identifier: Apache-2.0
// Times GEMMs with cold caches: before each run the L2 cache is overwritten. Holds device memory of twice its size.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/cuda/device/owned_memory.h"
#include "kernels/cuda/device/stopwatch.h"
#include "kernels/cuda/gemm/cublaslt/product_clock.h"

namespace dunlin::kernels::cuda {

class ColdClock : public ProductClock {
 public:
  // Twice the cache, because a write of its exact size does not evict every line.
  explicit ColdClock(DeviceContext* context)
      : context_(context), watch_(context), other_(context, 2 * context->l2_bytes) {}

  double ColdSeconds(const std::function<KernelStatus()>& enqueue) override {
    double best = std::numeric_limits<double>::infinity();
    if (other_.data() == nullptr) return best;
    for (int run = 0; run < kRuns; ++run) {
      const cudaError_t filled = cudaMemsetAsync(other_.data(), run, other_.bytes(), context_->stream);
      if (Checked(context_, filled) != KernelStatus::kOk) return std::numeric_limits<double>::infinity();
      best = std::min(best, watch_.BestSeconds(1, enqueue));
    }
    return best;
  }

 private:
  static constexpr int kRuns = 4;  // the first one includes loading the kernel

  DeviceContext* const context_;
  Stopwatch watch_;
  const OwnedMemory other_;
};

}  // namespace dunlin::kernels::cuda
