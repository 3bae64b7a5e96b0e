// SPDX-License-Identifier: Apache-2.0
// NEON tiles of FP16 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/neon/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kNeonF16Tiles =
    attention::TilesOf<attention::F16Keys<neon::TileLanes>, attention::F16Values<neon::TileLanes>>();

}  // namespace dunlin::kernels::cpu
