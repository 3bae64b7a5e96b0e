// SPDX-License-Identifier: Apache-2.0
// FLASH on BF16 operands, keys and values in BF16 or E4M3. Instantiations: flash_launch.cuh's = 4.
#include "kernels/cuda/attention/flash/sm80/flash_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchFlashBf16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  LaunchFlash<Bf16Format>(call, plan, stream);
}

cudaError_t PrepareFlashBf16(int32_t shared_bytes) {
  return PrepareFlash<Bf16Format>(shared_bytes);
}

}  // namespace dunlin::kernels::cuda
