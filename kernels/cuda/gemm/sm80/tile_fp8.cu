// SPDX-License-Identifier: Apache-2.0
// The tile GEMM on E4M3 codes. Instantiations: 1, 2 and 4 groups, and 1 and 2 with a scale per 128 codes = 5.
#include "kernels/cuda/gemm/sm80/tile_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchTilesFp8(const TileCall& call, cudaStream_t stream) {
  if (call.weight_scales != nullptr) return LaunchTiles<CodeOperand, true>(call, stream);
  LaunchTiles<CodeOperand, false>(call, stream);
}

cudaError_t PrepareTilesFp8() {
  if (const cudaError_t error = PrepareTiles<CodeOperand, true>(); error != cudaSuccess) return error;
  return PrepareTiles<CodeOperand, false>();
}

}  // namespace dunlin::kernels::cuda
