// SPDX-License-Identifier: Apache-2.0
// AVX2 tiles of FP32 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/avx2/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kAvx2F32Tiles =
    attention::TilesOf<attention::F32Keys<avx2::TileLanes>, attention::F32Values<avx2::TileLanes>>();

}  // namespace dunlin::kernels::cpu
