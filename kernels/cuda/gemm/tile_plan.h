// Which rows of a product our own kernel computes, and how its launches are divided. Host code.
//
// The phase of a row chooses its kernel, and the weight's shape the division of K; the number of rows chooses neither.
// So a row's bits do not depend on the rows beside it.
#pragma once

#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/cuda/gemm/tile_call.h"

namespace dunlin::kernels::cuda {

// Whether rows of this phase are the tile kernel's; else they are cuBLASLt's. sm_version: 90 for compute
// capability 9.0. Tiles take every decoding row but FP32's, and the FP8 that cuBLASLt has not: before and after sm_9x
// it has no scale per row and output, and 128 x 128 blocks nowhere with a scale of every output.
bool UsesTiles(int sm_version, const PackedWeight& weight, bool decodes);

// How K is divided: `slices` of tiles_per_slice tiles, the last maybe smaller.
struct SliceRule {
  int32_t tiles;
  int32_t tiles_per_slice;
  int32_t slices;
};
// Prefill has one slice. Decode has few rows, so that only slices give an SM's blocks enough bytes under way: as many
// as make 528 blocks, four on each of 132 SMs, of at least four tiles.
SliceRule SlicesOf(int64_t columns, int64_t row_bytes, bool decodes);

// Rows [first, first + count) of a product, all of one phase. parts: PartFloats(count) floats on 16 bytes, or null
// where that is 0.
TileCall TileCallOf(const GemmParams& params, int64_t first, int32_t count, bool decodes, float* parts);
// Floats that a call's slices need for each of its rows; 0: it has one slice.
int64_t PartFloatsPerRow(const PackedWeight& weight, bool decodes);

// Groups of 16 rows that a block computes: 1, 2 or 4; no more than 2 with scales each 128 codes, whose products are
// held beside the sums: with 4 a thread's registers would not do.
int GroupsOf(const TileCall& call);
int64_t TileBlocksOf(const TileCall& call, int groups);

}  // namespace dunlin::kernels::cuda
