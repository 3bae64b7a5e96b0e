// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows with gates, BF16 operands.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedGatesBf16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Bf16Format, true>(call, TensorElement::kBf16, stream);
}
int PrepareGroupedGatesBf16() {
  return PrepareGroupedWgmma<Bf16Format, true>();
}

}  // namespace dunlin::kernels::cuda
