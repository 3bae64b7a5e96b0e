// SPDX-License-Identifier: Apache-2.0
// A launch of the wgmma GEMM on rows in groups with a weight each: experts, whose rows are known on the device alone,
// or the heads of a batch. A row has the bits of a product of its own. Host code.
#pragma once

#include "kernels/api/grouped_gemm.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

struct GroupedTileCall {
  TileCall tile;                       // one slice; rows of all groups; weight, scales and bias of the first group
  const ExpertRows* groups = nullptr;  // [num_groups], device memory, in order and without gaps; or null
  int32_t num_groups = 0;              // 1 to kWgmmaGroupsMax
  int32_t rows_per_group = 0;          // with groups null
  int64_t weight_stride = 0;           // bytes from a group's weight to the next one's, a multiple of 16
  int64_t bias_stride = 0;             // floats
  int64_t out_skip = 0;                // floats that rows of `out` lie further with each group, beyond out_stride a row
};

// Groups [first, first + count) of valid parameters; of batches as many at once, whose rows params.rounded holds from
// row 0 on. False: their weights or biases lie at unequal distances.
bool GroupedTileCallOf(const GroupedGemmParams& params, int32_t first, int32_t count, GroupedTileCall* call);
bool GroupedTileCallOf(const BatchedGemmParams& params, int32_t first, int32_t count, GroupedTileCall* call);

}  // namespace dunlin::kernels::cuda
