// The GPU's clock around products whose operands come from memory: before each run the L2 cache is filled with
// something else. Holds device memory of that size while it lives.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/cuda/owned_memory.h"
#include "kernels/cuda/product_clock.h"
#include "kernels/cuda/stopwatch.h"

namespace dunlin::kernels::cuda {

class ColdClock : public ProductClock {
 public:
  // Twice the cache: what is written does not take the places of the oldest lines alone.
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
  static constexpr int kRuns = 4;  // the first loads the kernel's code

  DeviceContext* const context_;
  Stopwatch watch_;
  const OwnedMemory other_;
};

}  // namespace dunlin::kernels::cuda
