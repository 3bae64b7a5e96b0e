// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows with gates, BF16 and FP16 operands.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedGatesBf16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Bf16OrFp16, true>(call, TensorElement::kBf16, stream);
}
void LaunchGroupedGatesFp16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Bf16OrFp16, true>(call, TensorElement::kFp16, stream);
}
int PrepareGroupedGatesBf16() {
  return PrepareGroupedWgmma<Bf16OrFp16, true>();
}
int PrepareGroupedGatesFp16() {
  return PrepareGroupedWgmma<Bf16OrFp16, true>();
}

}  // namespace dunlin::kernels::cuda
