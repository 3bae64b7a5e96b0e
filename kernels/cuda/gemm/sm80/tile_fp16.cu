// SPDX-License-Identifier: Apache-2.0
// The tile GEMM on FP16 operands. Instantiations: 1, 2 and 4 groups = 3.
#include "kernels/cuda/gemm/sm80/tile_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchTilesFp16(const TileCall& call, Stream stream) {
  LaunchTiles<PlainOperand<Fp16Format>, false>(call, stream);
}

int PrepareTilesFp16() {
  return PrepareTiles<PlainOperand<Fp16Format>, false>();
}

}  // namespace dunlin::kernels::cuda
