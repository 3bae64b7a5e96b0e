// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/rounded_outputs.h"

#include <algorithm>

#include "kernels/cuda/attention/kernel.h"

namespace dunlin::kernels::cuda {
namespace {

// FLASH's general rows keep totals in FP32 outputs, for which others would need memory of their own.
bool WritesOnce(const AttentionKernel& kernel) {
  return kernel.backend != AttentionBackend::kFlash || kernel.check_bit != 0;
}

bool IsRounded(const Activation& next) {
  return (next.precision == Precision::kBf16 || next.precision == Precision::kFp16) && next.amax == nullptr &&
         next.columns % kMatrixMultiple == 0;
}

}  // namespace

bool RoundsOutputsOn(const DeviceShape& device, const PagedAttentionParams& params) {
  if (params.next == nullptr || !IsRounded(*params.next)) return false;
  const AttentionCall call = CallOf(params);
  return std::ranges::all_of(kAttentionPhases, [&](AttentionPhase phase) {
    const AttentionKernel* kernel =
        FindKernel(AttentionKernels(), device, params.backend, phase, TraitsOf(params), &call);
    return kernel != nullptr && WritesOnce(*kernel);
  });
}

}  // namespace dunlin::kernels::cuda
