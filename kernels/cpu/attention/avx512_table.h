// Puts an AVX-512 table together from a file's loaders. Included by the avx512_*.cc only.
#pragma once

#include "kernels/cpu/attention/avx512_adjust.h"
#include "kernels/cpu/attention/avx512_rows.h"
#include "kernels/cpu/attention/avx512_softmax.h"
#include "kernels/cpu/attention/avx512_tiles.h"

namespace dunlin::kernels::cpu::avx512 {

// Keys and Values: loaders of scores and values. WideValues: of values with P in FP32 (Values itself when P is FP32).
template <typename Keys, typename Values, typename WideValues>
constexpr TileOps TilesOf() {
  return {.bf16_pairs = sizeof(typename Values::P) == 2,
          .load_query = LoadQuery<Values>,
          .store_output = StoreOutput<Values>,
          .scores = Scores<Keys>,
          .adjust_row = AdjustRow<Values>,
          .running_softmax = RunningSoftmax<Values>,
          .chunk_softmax = ChunkSoftmax<Values>,
          .full_softmax = FullSoftmax<WideValues>,
          .values = avx512::AddValues<Values>,
          .values_f32 = avx512::AddValues<WideValues>,
          .merge = Merge<Values>};
}

}  // namespace dunlin::kernels::cpu::avx512
