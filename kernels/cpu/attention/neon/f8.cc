// SPDX-License-Identifier: Apache-2.0
// NEON tiles of E4M3 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/neon/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kNeonF8Tiles =
    attention::TilesOf<attention::F8Keys<neon::TileLanes>, attention::F8Values<neon::TileLanes>>();

}  // namespace dunlin::kernels::cpu
