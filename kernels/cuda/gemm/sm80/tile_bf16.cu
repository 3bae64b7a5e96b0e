// SPDX-License-Identifier: Apache-2.0
// The tile GEMM on BF16 operands. Instantiations: 1, 2 and 4 groups = 3.
#include "kernels/cuda/gemm/sm80/tile_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchTilesBf16(const TileCall& call, Stream stream) {
  LaunchTiles<PlainOperand<Bf16Format>, false>(call, stream);
}

int PrepareTilesBf16() {
  return PrepareTiles<PlainOperand<Bf16Format>, false>();
}

}  // namespace dunlin::kernels::cuda
