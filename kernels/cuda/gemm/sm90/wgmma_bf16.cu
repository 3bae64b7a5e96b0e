// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on BF16 operands.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaBf16(const TileCall& call, Stream stream) {
  LaunchWgmma<Bf16Format>(call, TensorElement::kBf16, stream);
}
int PrepareWgmmaBf16() {
  return PrepareWgmma<Bf16Format>();
}

}  // namespace dunlin::kernels::cuda
