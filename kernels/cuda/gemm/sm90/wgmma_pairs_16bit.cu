// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM with paired outputs on BF16 and FP16 operands.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaPairsBf16(const TileCall& call, Stream stream) {
  LaunchWgmma<Bf16OrFp16, true>(call, TensorElement::kBf16, stream);
}
void LaunchWgmmaPairsFp16(const TileCall& call, Stream stream) {
  LaunchWgmma<Bf16OrFp16, true>(call, TensorElement::kFp16, stream);
}
int PrepareWgmmaPairsBf16() {
  return PrepareWgmma<Bf16OrFp16, true>();
}
int PrepareWgmmaPairsFp16() {
  return PrepareWgmma<Bf16OrFp16, true>();
}

}  // namespace dunlin::kernels::cuda
