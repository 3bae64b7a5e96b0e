// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on BF16 and FP16 operands.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaBf16(const TileCall& call, Stream stream) {
  LaunchWgmma<Bf16OrFp16>(call, TensorElement::kBf16, stream);
}
void LaunchWgmmaFp16(const TileCall& call, Stream stream) {
  LaunchWgmma<Bf16OrFp16>(call, TensorElement::kFp16, stream);
}
int PrepareWgmmaBf16() {
  return PrepareWgmma<Bf16OrFp16>();
}
int PrepareWgmmaFp16() {
  return PrepareWgmma<Bf16OrFp16>();
}

}  // namespace dunlin::kernels::cuda
