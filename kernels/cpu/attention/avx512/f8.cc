// SPDX-License-Identifier: Apache-2.0
// AVX-512 tiles of E4M3 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kAvx512F8Tiles =
    attention::TilesOf<attention::F8Keys<avx512::TileLanes>, attention::F8Values<avx512::TileLanes>>();

}  // namespace dunlin::kernels::cpu
