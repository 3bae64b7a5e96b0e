// SPDX-License-Identifier: Apache-2.0
// The table of BF16 pages by the BF16 dot product. Any translation unit.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu {

extern const TileOps kNeonBf16DotTiles;  // twice the products of FMA

}  // namespace dunlin::kernels::cpu
