// SPDX-License-Identifier: Apache-2.0
// EFFICIENT: a block computes 64 rows by 64 value columns. Keys are processed in chunks of 64 at absolute multiples;
// each chunk is reduced independently to its maximum, sum and values, and chunks are merged in ascending order, within
// one block or by the merge kernel over many blocks, with the same bits. Query dims are processed 64 at a time, so any
// head_dim works, and v_head_dim is independent of it. Source: Rabe & Staats 2021, section 3.
#pragma once

#include "kernels/cuda/attention/partial.h"
#include "kernels/cuda/attention/tile_work.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kChunkKeys = kTileRows;

// A warp's state within a block.
struct EfficientWarp {
  RowKeys keys;
  TileFrag scores;  // then weights
  RowFrag maximum;  // of the chunk
  RowFrag sum;
  TileFrag out;
  RowFrag total_maximum;  // of all previous chunks
  RowFrag total_sum;
  TileFrag total;
};

// Turns the products of the chunk at first_key into weights, with their maximum and sum.
DUNLIN_HD inline void WeighChunk(const AttentionCall& call, const RowBlock& rows, int warp, int32_t first_key,
                                 EfficientWarp* own) {
  ToScores(call, rows, warp, own->keys, first_key, nullptr, &own->scores);
  own->maximum.Fill(-INFINITY);
  own->sum.Fill(0.0F);
  own->out.Fill(0.0F);
  RaiseToLargest(own->scores, &own->maximum);
  LargestOfQuads(&own->maximum);
  ToWeights(own->maximum, &own->scores, &own->sum);
  SumQuads(&own->sum);
}

DUNLIN_HD inline void MergeChunk(EfficientWarp* own) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const MergeFactors merge = MergeOf(own->total_maximum.at(lane, half), own->total_sum.at(lane, half),
                                         own->maximum.at(lane, half), own->sum.at(lane, half));
      DUNLIN_UNROLL
      for (int r = 0; r < 16; ++r) {
        float& value = own->total.at(lane, r / 2 * 4 + half * 2 + r % 2);
        value = merge(value, own->out.at(lane, r / 2 * 4 + half * 2 + r % 2));
      }
      own->total_maximum.at(lane, half) = merge.maximum;
      own->total_sum.at(lane, half) = merge.sum;
    }
  });
}

// The 64 columns from first_dim on. part: the block's only chunk where the call has a part store.
template <typename Products>
DUNLIN_HD void RunEfficient(const AttentionCall& call, const PartialStore& parts, const RowBlock& rows,
                            int32_t first_dim, int32_t part, unsigned char* shared) {
  const TileWork<Products> work = WorkOf<Products>(call, rows, shared);
  const bool in_parts = parts.data != nullptr;
  int32_t chunk = rows.key_start / kChunkKeys;
  int32_t end = (rows.key_limit + kChunkKeys - 1) / kChunkKeys;
  if (in_parts) {
    if (part < chunk || part >= end) return;
    chunk = part;
    end = part + 1;
  }
  PerWarp<EfficientWarp> warps;
  ForWarps([&](int warp) {
    EfficientWarp& own = warps[warp];
    FindKeys(rows, warp, &own.keys);
    own.total_maximum.Fill(-INFINITY);
    own.total_sum.Fill(0.0F);
    own.total.Fill(0.0F);
  });
  for (bool queries_there = false; chunk < end; ++chunk, queries_there = work.query_tiles() == 1) {
    const int32_t first_key = chunk * kChunkKeys;
    work.ScoreTile(first_key, queries_there, [&](int warp) -> TileFrag& { return warps[warp].scores; });
    ForWarps([&](int warp) { WeighChunk(call, rows, warp, first_key, &warps[warp]); });
    work.WeighTile(first_key, first_dim, [&](int warp, const auto& weigh) {
      EfficientWarp& own = warps[warp];
      weigh(own.scores, own.keys, &own.out);
      if (!in_parts) MergeChunk(&own);
    });
  }
  ForWarps([&](int warp) {
    EfficientWarp& own = warps[warp];
    if (in_parts) {
      StorePart(parts, parts.Part(parts.Task(rows, call.num_kv_heads), part), rows, warp, first_dim, 0, own.maximum,
                own.sum, own.out);
    } else {
      AddSinks(call, rows, warp, own.total_maximum, &own.total_sum);
      StoreOutputs(call, rows, warp, first_dim, 0, own.total_sum, own.total);
    }
  });
}

}  // namespace dunlin::kernels::cuda
