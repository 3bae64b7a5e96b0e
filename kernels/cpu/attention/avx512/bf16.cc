// SPDX-License-Identifier: Apache-2.0
// AVX-512 tiles of BF16 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kAvx512Bf16Tiles =
    attention::TilesOf<attention::Bf16Keys<avx512::TileLanes>, attention::Bf16Values<avx512::TileLanes>>();

}  // namespace dunlin::kernels::cpu
