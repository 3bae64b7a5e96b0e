// SPDX-License-Identifier: Apache-2.0
// A warp's operations on the scores and outputs of its 16 rows, in the registers of mma.m16n8k16 (ProductSlot): a
// lane's two rows are those of its registers 0 and 2. For block programs (block/block_program.h).
#pragma once

#include "kernels/cuda/attention/partial.h"
#include "kernels/cuda/attention/row_block.h"
#include "kernels/cuda/attention/tile_products.h"
#include "kernels/cuda/block/block_program.h"

namespace dunlin::kernels::cuda {

using RowFrag = Frag<float, 2>;  // one value for each of a lane's two rows

// The block's packed row that register i of a warp's lane belongs to.
DUNLIN_HD constexpr int32_t RowOf(int warp, int lane, int i) {
  return warp * 16 + ProductSlot::Row(lane, i);
}

// The keys that a lane's two rows see; rows past the block's last see none.
struct RowKeys {
  Frag<int32_t, 2> start;
  Frag<int32_t, 2> limit;
};

DUNLIN_HD inline void FindKeys(const RowBlock& block, int warp, RowKeys* keys) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int32_t row = RowOf(warp, lane, 2 * i);
      const bool present = row < block.num_rows;
      const int32_t token = block.Token(present ? row : 0);
      keys->start.at(lane, i) = present ? block.sequence.KeyStart(token) : 0;
      keys->limit.at(lane, i) = present ? block.sequence.KeyLimit(token) : 0;
    }
  });
}

// Applies them to the scores of a tile that needs them. A loop, because the body is large and the case rare; the
// register is selected by comparison, because registers cannot be indexed.
template <bool kSelects>
DUNLIN_HD inline void AdjustScores(const AttentionCall& call, const RowBlock& block, int warp, const RowKeys& keys,
                                   int32_t first_key, TileFrag* scores) {
  ForLanes([&](int lane) {
    DUNLIN_NO_UNROLL
    for (int r = 0; r < 32; ++r) {
      const int32_t key = first_key + r / 4 * 8 + ProductSlot::Column(lane, r % 4);
      const int32_t row = RowOf(warp, lane, r % 4);
      const bool upper = r % 4 < 2;
      const int32_t start = upper ? keys.start.at(lane, 0) : keys.start.at(lane, 1);
      const int32_t limit = upper ? keys.limit.at(lane, 0) : keys.limit.at(lane, 1);
      float score = 0.0F;
      DUNLIN_UNROLL
      for (int i = 0; i < 32; ++i) score = i == r ? scores->at(lane, i) : score;
      score = key < start || key >= limit ? -INFINITY : AdjustedScore<kSelects>(call, block, row, key, limit, score);
      DUNLIN_UNROLL
      for (int i = 0; i < 32; ++i) scores->at(lane, i) = i == r ? score : scores->at(lane, i);
    }
  });
}

// Turns the products of the tile at first_key into scores, -inf where a row does not see a key. key_scales: of E4M3
// codes, or null. Tiles that all rows see completely take a shorter path with the same bits. kSelects: the call may
// have a selection of keys.
template <bool kSelects = true>
DUNLIN_HD inline void ToScores(const AttentionCall& call, const RowBlock& block, int warp, const RowKeys& keys,
                               int32_t first_key, const float* key_scales, TileFrag* scores) {
  if (key_scales != nullptr) {
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int r = 0; r < 32; ++r) {
        scores->at(lane, r) *= key_scales[r / 4 * 8 + ProductSlot::Column(lane, r % 4)];
      }
    });
  }
  if (call.adjusts()) return AdjustScores<kSelects>(call, block, warp, keys, first_key, scores);
  const bool sees_all = block.SeesAll(first_key, kTileRows);
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int r = 0; r < 32; ++r) {
      float& score = scores->at(lane, r);
      score = score * call.scale * kLog2E;
      const int32_t key = first_key + r / 4 * 8 + ProductSlot::Column(lane, r % 4);
      const int half = r % 4 / 2;
      if (!sees_all && (key < keys.start.at(lane, half) || key >= keys.limit.at(lane, half))) score = -INFINITY;
    }
  });
}

// The largest score of each row, at least *largest; NaN is ignored.
DUNLIN_HD inline void RaiseToLargest(const TileFrag& scores, RowFrag* largest) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int r = 0; r < 32; ++r) {
      float& value = largest->at(lane, r % 4 / 2);
      value = fmaxf(value, scores.at(lane, r));
    }
  });
}

// Turns scores into weights 2^(score - center) and adds them to the lane's part of the row's sum.
DUNLIN_HD inline void ToWeights(const RowFrag& largest, TileFrag* scores, RowFrag* sum) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int r = 0; r < 32; ++r) {
      const int half = r % 4 / 2;
      const float weight = Exp2(scores->at(lane, r) - CenterOf(largest.at(lane, half)));
      scores->at(lane, r) = weight;
      sum->at(lane, half) += weight;
    }
  });
}

// Completes the sums of a warp's rows once all of their keys have been added.
DUNLIN_HD inline void AddSinks(const AttentionCall& call, const RowBlock& block, int warp, const RowFrag& maximum,
                               RowFrag* sum) {
  if (call.sinks == nullptr) return;
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = RowOf(warp, lane, 2 * half);
      float& total = sum->at(lane, half);
      if (row < block.num_rows) total += SinkTerm(call, block, row, maximum.at(lane, half), total);
    }
  });
}

DUNLIN_HD inline void SumQuads(RowFrag* sum) {
  ReduceQuads(sum, [](float a, float b) { return a + b; });
}
DUNLIN_HD inline void LargestOfQuads(RowFrag* largest) {
  ReduceQuads(largest, [](float a, float b) { return fmaxf(a, b); });
}

// Stores 64 columns of the warp's rows, from output column first_dim and register 32 * slice on, divided by the sums. A
// row that saw no key gives zeros.
template <int kCount>
DUNLIN_HD void StoreOutputs(const AttentionCall& call, const RowBlock& block, int warp, int32_t first_dim, int slice,
                            const RowFrag& sum, const Frag<float, kCount>& out) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = RowOf(warp, lane, 2 * half);
      if (row >= block.num_rows) continue;
      const float total = sum.at(lane, half);
      const float factor = total == 0.0F ? 0.0F : 1.0F / total;
      const int64_t start = OutputAt(call, block, row);
      DUNLIN_UNROLL
      for (int r = 0; r < 16; ++r) {
        const int32_t dim = first_dim + r / 2 * 8 + ProductSlot::Column(lane, r % 2);
        const float value = out.at(lane, slice * 32 + r / 2 * 4 + half * 2 + r % 2) * factor;
        if (dim < call.values.dim) StoreElement(call.out.dtype, call.out.data, start + dim, value);
      }
    }
  });
}

// Stores 64 columns from first_dim on of a warp's rows.
template <int kCount>
DUNLIN_HD void StorePart(const PartialStore& store, float* part, const RowBlock& block, int warp, int32_t first_dim,
                         int slice, const RowFrag& maximum, const RowFrag& sum, const Frag<float, kCount>& out) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = RowOf(warp, lane, 2 * half);
      if (row >= block.num_rows) continue;
      if (lane % 4 == 0) {
        part[row] = maximum.at(lane, half);
        part[store.rows + row] = sum.at(lane, half);
      }
      float* values = part + 2 * store.rows + int64_t{row} * store.v_head_dim;
      DUNLIN_UNROLL
      for (int r = 0; r < 16; ++r) {
        const int32_t dim = first_dim + r / 2 * 8 + ProductSlot::Column(lane, r % 2);
        if (dim < store.v_head_dim) values[dim] = out.at(lane, slice * 32 + r / 2 * 4 + half * 2 + r % 2);
      }
    }
  });
}

}  // namespace dunlin::kernels::cuda
