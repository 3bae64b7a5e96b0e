// SPDX-License-Identifier: Apache-2.0
// The tile GEMM on E4M3 codes. Instantiations: 1, 2 and 4 groups, and 1 and 2 with a scale per 128 codes = 5.
#include "kernels/cuda/gemm/sm80/tile_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchTilesFp8(const TileCall& call, Stream stream) {
  LaunchTiles<CodeOperand, false>(call, stream);
}
void LaunchTilesFp8Blocks(const TileCall& call, Stream stream) {
  LaunchTiles<CodeOperand, true>(call, stream);
}

int PrepareTilesFp8() {
  return PrepareTiles<CodeOperand, false>();
}
int PrepareTilesFp8Blocks() {
  return PrepareTiles<CodeOperand, true>();
}

}  // namespace dunlin::kernels::cuda
