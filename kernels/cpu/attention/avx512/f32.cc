// SPDX-License-Identifier: Apache-2.0
// AVX-512 tiles of FP32 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kAvx512F32Tiles =
    attention::TilesOf<attention::F32Keys<avx512::TileLanes>, attention::F32Values<avx512::TileLanes>>();
const TileOps kAvx512F32L2Tiles =
    attention::TilesOf<attention::F32Keys<avx512::L2TileLanes>, attention::F32Values<avx512::L2TileLanes>>();

}  // namespace dunlin::kernels::cpu
