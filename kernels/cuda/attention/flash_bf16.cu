// SPDX-License-Identifier: Apache-2.0
// FLASH on BF16 operands, keys and values in BF16 or E4M3. Instantiations: 1, 2 and 4 slices = 3.
#include "kernels/cuda/attention/flash_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchFlashBf16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  LaunchFlash<Bf16Format>(call, plan, stream);
}

cudaError_t PrepareFlashBf16() {
  return PrepareFlash<Bf16Format>();
}

}  // namespace dunlin::kernels::cuda
