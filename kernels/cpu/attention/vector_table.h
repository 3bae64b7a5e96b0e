// Puts a table together from a file's loaders. Included by the vector files only, after their Lanes.
#pragma once

#include "kernels/cpu/attention/vector_loaders.h"
#include "kernels/cpu/attention/vector_rows.h"
#include "kernels/cpu/attention/vector_softmax.h"
#include "kernels/cpu/attention/vector_tiles.h"

namespace dunlin::kernels::cpu::vectors {

// Keys and Values: a file's own loaders of scores and values. FloatValues: of values with P in FP32 (Values itself when
// P is FP32).
template <typename Keys, typename Values, typename FloatValues>
constexpr TileOps TilesOf(RowRange near_rows = {}) {
  return {.bf16_pairs = sizeof(typename Values::P) == 2,
          .scales_p = false,
          .score_rows = kMaxRows,
          .plan_asks = nullptr,
          .near_rows = near_rows,
          .round_rows = {},
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

}  // namespace dunlin::kernels::cpu::vectors
