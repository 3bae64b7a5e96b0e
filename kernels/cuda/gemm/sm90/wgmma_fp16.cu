// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on FP16 operands.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaFp16(const TileCall& call, Stream stream) {
  LaunchWgmma<Fp16Format>(call, TensorElement::kFp16, stream);
}
int PrepareWgmmaFp16() {
  return PrepareWgmma<Fp16Format>();
}

}  // namespace dunlin::kernels::cuda
