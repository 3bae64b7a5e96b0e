// SPDX-License-Identifier: Apache-2.0
// FLASH on FP16 operands. Instantiations: 1, 2 and 4 slices = 3.
#include "kernels/cuda/attention/flash_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchFlashFp16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  LaunchFlash<Fp16Format>(call, plan, stream);
}

cudaError_t PrepareFlashFp16() {
  return PrepareFlash<Fp16Format>();
}

}  // namespace dunlin::kernels::cuda
