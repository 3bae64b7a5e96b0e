// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows, E4M3 codes with a scale per 128 of them.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedWgmmaFp8Blocks(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<E4M3Blocks>(call, TensorElement::kByte, stream);
}
int PrepareGroupedWgmmaFp8Blocks() {
  return PrepareGroupedWgmma<E4M3Blocks>();
}

}  // namespace dunlin::kernels::cuda
