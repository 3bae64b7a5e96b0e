// SPDX-License-Identifier: Apache-2.0
// How launches of the tile kernel are divided: by the weight's shape and the rows' phase, never by their number. Host
// code.
#pragma once

#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

constexpr int64_t DividedUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

// How K is divided: `slices` slices of tiles_per_slice tiles; the last may be smaller.
struct SliceRule {
  int32_t tiles;
  int32_t tiles_per_slice;
  int32_t slices;
};
// Prefill uses one slice. Decode has few rows, so only slices keep enough bytes in flight per SM: as many as make 528
// blocks, four on each of 132 SMs, of at least four tiles each.
SliceRule SlicesOf(int64_t columns, int64_t row_bytes, bool decodes);

// Rows [first, first + count) of a GEMM, all of one phase. parts: PartFloats(count) floats, 16-byte aligned, or null
// when that is 0.
TileCall TileCallOf(const GemmParams& params, int64_t first, int32_t count, bool decodes, float* parts);
// Floats that a call's slices need per row; 0: there is one slice.
int64_t PartFloatsPerRow(const PackedWeight& weight, bool decodes);

// Groups of 16 rows per block: 1, 2 or 4; at most 2 with scales per 128 codes, whose products are held beside the sums:
// four would exceed the registers of a thread.
int GroupsOf(const TileCall& call);
int64_t TileBlocksOf(const TileCall& call, int groups);

}  // namespace dunlin::kernels::cuda
