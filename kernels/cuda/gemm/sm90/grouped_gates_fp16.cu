// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows with gates, FP16 operands.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedGatesFp16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Fp16Format, true>(call, TensorElement::kFp16, stream);
}
int PrepareGroupedGatesFp16() {
  return PrepareGroupedWgmma<Fp16Format, true>();
}

}  // namespace dunlin::kernels::cuda
