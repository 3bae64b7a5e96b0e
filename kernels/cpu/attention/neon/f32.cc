// SPDX-License-Identifier: Apache-2.0
// NEON tiles of FP32 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/neon/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kNeonF32Tiles =
    attention::TilesOf<attention::F32Keys<neon::TileLanes>, attention::F32Values<neon::TileLanes>>();

}  // namespace dunlin::kernels::cpu
