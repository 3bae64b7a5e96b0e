// SPDX-License-Identifier: Apache-2.0
// AVX2 tiles of BF16 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/avx2/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kAvx2Bf16Tiles =
    attention::TilesOf<attention::Bf16Keys<avx2::TileLanes>, attention::Bf16Values<avx2::TileLanes>>();

}  // namespace dunlin::kernels::cpu
