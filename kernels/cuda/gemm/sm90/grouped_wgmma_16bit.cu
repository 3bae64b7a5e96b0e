// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows, BF16 and FP16 operands.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedWgmmaBf16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Bf16OrFp16>(call, TensorElement::kBf16, stream);
}
void LaunchGroupedWgmmaFp16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Bf16OrFp16>(call, TensorElement::kFp16, stream);
}
int PrepareGroupedWgmmaBf16() {
  return PrepareGroupedWgmma<Bf16OrFp16>();
}
int PrepareGroupedWgmmaFp16() {
  return PrepareGroupedWgmma<Bf16OrFp16>();
}

}  // namespace dunlin::kernels::cuda
