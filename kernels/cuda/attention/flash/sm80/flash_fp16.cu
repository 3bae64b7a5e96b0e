// SPDX-License-Identifier: Apache-2.0
// FLASH on FP16 operands. Instantiations: flash_launch.cuh's = 4.
#include "kernels/cuda/attention/flash/sm80/flash_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchFlashFp16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  LaunchFlash<Fp16Format>(call, plan, stream);
}

cudaError_t PrepareFlashFp16(int32_t shared_bytes) {
  return PrepareFlash<Fp16Format>(shared_bytes);
}

}  // namespace dunlin::kernels::cuda
