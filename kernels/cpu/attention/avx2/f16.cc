// SPDX-License-Identifier: Apache-2.0
// AVX2 tiles of FP16 pages, multiplied as floats (vector/loaders.h).
#include "kernels/cpu/attention/avx2/tile_lanes.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {

const TileOps kAvx2F16Tiles =
    attention::TilesOf<attention::F16Keys<avx2::TileLanes>, attention::F16Values<avx2::TileLanes>>();

}  // namespace dunlin::kernels::cpu
