// SPDX-License-Identifier: Apache-2.0
// Puts a table together from a file's loaders. Included by the vector files only, after their Lanes.
#pragma once

#include "kernels/cpu/attention/vector/loaders.h"
#include "kernels/cpu/attention/vector/rows.h"
#include "kernels/cpu/attention/vector/softmax.h"
#include "kernels/cpu/attention/vector/tiles.h"

namespace dunlin::kernels::cpu::attention {

// Keys and Values: loaders of scores and values (loaders.h). FloatValues: of values with P in FP32.
template <typename Keys, typename Values, typename FloatValues = Values>
constexpr TileOps TilesOf() {
  return {.bf16_pairs = sizeof(typename Values::P) == 2,
          .scales_p = false,
          .score_rows = kMaxRows,
          .block_bytes = Keys::kWidens ? Keys::Lanes::kBlockBytes : 0,
          .load_query = LoadQuery<Values>,
          .store_output = StoreOutput<Values>,
          .scores = Scores<Keys>,
          .adjust_row = AdjustRow<Values>,
          .running_softmax = RunningSoftmax<Values>,
          .chunk_softmax = ChunkSoftmax<Values>,
          .full_softmax = FullSoftmax<FloatValues>,
          .values = AddValues<Values>,
          .values_f32 = AddValues<FloatValues>,
          .merge = Merge<Values>};
}

}  // namespace dunlin::kernels::cpu::attention
