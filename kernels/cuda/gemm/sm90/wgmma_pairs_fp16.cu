// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM with paired outputs on FP16 operands.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaPairsFp16(const TileCall& call, Stream stream) {
  LaunchWgmma<Fp16Format, true>(call, TensorElement::kFp16, stream);
}
int PrepareWgmmaPairsFp16() {
  return PrepareWgmma<Fp16Format, true>();
}

}  // namespace dunlin::kernels::cuda
