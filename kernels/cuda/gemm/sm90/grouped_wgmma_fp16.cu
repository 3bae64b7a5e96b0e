// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows, FP16 operands.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedWgmmaFp16(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<Fp16Format>(call, TensorElement::kFp16, stream);
}
int PrepareGroupedWgmmaFp16() {
  return PrepareGroupedWgmma<Fp16Format>();
}

}  // namespace dunlin::kernels::cuda
