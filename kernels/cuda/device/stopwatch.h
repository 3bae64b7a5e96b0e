// SPDX-License-Identifier: Apache-2.0
// GPU time: seconds between two events around what a function enqueues on the context's stream. It synchronises, so it
// is for measurements, not for serving.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cuda/device/context.h"

namespace dunlin::kernels::cuda {

class Stopwatch {
 public:
  explicit Stopwatch(DeviceContext* context) : context_(context) {
    (void)Checked(context, cudaEventCreate(&begin_));
    (void)Checked(context, cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    if (begin_ != nullptr) (void)cudaEventDestroy(begin_);
    if (end_ != nullptr) (void)cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // The shortest of `runs` runs; infinity after a failure, which the context records.
  template <typename Enqueue>
  double BestSeconds(int32_t runs, const Enqueue& enqueue) {
    double best = std::numeric_limits<double>::infinity();
    for (int32_t run = 0; run < runs; ++run) best = std::min(best, Seconds(enqueue));
    return best;
  }

 private:
  template <typename Enqueue>
  double Seconds(const Enqueue& enqueue) {
    float milliseconds = 0.0F;
    if (context_->failed) return std::numeric_limits<double>::infinity();
    const bool measured = Checked(context_, cudaEventRecord(begin_, context_->stream)) == KernelStatus::kOk &&
                          enqueue() == KernelStatus::kOk &&
                          Checked(context_, cudaEventRecord(end_, context_->stream)) == KernelStatus::kOk &&
                          Checked(context_, cudaEventSynchronize(end_)) == KernelStatus::kOk &&
                          Checked(context_, cudaEventElapsedTime(&milliseconds, begin_, end_)) == KernelStatus::kOk;
    // Event timestamps have a resolution of half a microsecond.
    return measured ? std::max(1e-3 * static_cast<double>(milliseconds), 0.5e-6)
                    : std::numeric_limits<double>::infinity();
  }

  DeviceContext* const context_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace dunlin::kernels::cuda
