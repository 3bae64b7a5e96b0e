// SPDX-License-Identifier: Apache-2.0
// Which rows of a GEMM the tile kernel computes, and how its launches are divided. Host code.
//
// A row's phase selects its kernel, and the weight's shape the division of K; neither depends on the number of rows, so
// a row's bits do not depend on the other rows.
#pragma once

#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

// Whether rows of this phase go to the tile kernel rather than cuBLASLt. sm_version: 90 for compute capability 9.0. The
// tile kernel takes every decode row except FP32's, and the FP8 that cuBLASLt does not support: one scale
// per row and per output on devices other than sm_9x, and scales per output and 128 columns on any device. For cuBLASLt
// integer codes are expanded to BF16.
bool UsesTiles(int sm_version, const PackedWeight& weight, bool decodes);

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
