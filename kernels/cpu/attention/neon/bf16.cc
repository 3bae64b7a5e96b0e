// SPDX-License-Identifier: Apache-2.0
// NEON tiles of BF16 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/neon/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kNeonBf16Tiles =
    attention::TilesOf<attention::Bf16Keys<neon::TileLanes>, attention::Bf16Values<neon::TileLanes>>();

}  // namespace dunlin::kernels::cpu
