// SPDX-License-Identifier: Apache-2.0
// MATH, the reference of the other two: all scores of a block's 64 rows in global memory, a softmax over whole rows,
// then the normalised weights times the values, all in FP32. A lane reads back only what it wrote itself.
#pragma once

#include "kernels/cuda/attention/tile_work.h"

namespace dunlin::kernels::cuda {

// Floats of a block's scores over max_kv_tokens keys, in tiles of 64 x 64.
DUNLIN_HD constexpr int64_t MathScoreFloats(int32_t max_kv_tokens) {
  return (int64_t{max_kv_tokens} + kTileRows - 1) / kTileRows * (kTileRows * kTileRows);
}

// Index of a lane's register r in the scores of tile `tile`: adjacent lanes are adjacent.
DUNLIN_HD constexpr int64_t MathScoreAt(int32_t tile, int warp, int lane, int r) {
  return ((int64_t{tile} * kBlockWarps + warp) * 32 + r) * kWarpLanes + lane;
}

struct MathWarp {
  RowKeys keys;
  RowFrag maximum;
  RowFrag sum;  // then the factor that normalises the weights
  TileFrag scores;
  TileFrag out;
};

DUNLIN_HD inline void StoreScores(const TileFrag& values, int32_t tile, int warp, float* scores) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int r = 0; r < 32; ++r) scores[MathScoreAt(tile, warp, lane, r)] = values.at(lane, r);
  });
}
DUNLIN_HD inline void LoadScores(const float* scores, int32_t tile, int warp, TileFrag* values) {
  ForLanes([&](int lane) {
    DUNLIN_UNROLL
    for (int r = 0; r < 32; ++r) values->at(lane, r) = scores[MathScoreAt(tile, warp, lane, r)];
  });
}

// scores: [MathScoreFloats(call.max_kv_tokens)], owned by this block.
DUNLIN_HD inline void RunMath(const AttentionCall& call, const RowBlock& rows, float* scores, unsigned char* shared) {
  const TileWork<Fp32Products> work = WorkOf<Fp32Products>(call, rows, shared);
  PerWarp<MathWarp> warps;
  ForWarps([&](int warp) {
    MathWarp& own = warps[warp];
    FindKeys(rows, warp, &own.keys);
    own.maximum.Fill(-INFINITY);
    own.sum.Fill(0.0F);
  });
  const int32_t first = rows.key_start / kTileRows;
  const int32_t end = (rows.key_limit + kTileRows - 1) / kTileRows;
  for (int32_t tile = first; tile < end; ++tile) {
    const int32_t key = tile * kTileRows;
    work.ScoreTile(key, tile > first && work.query_tiles() == 1,
                   [&](int warp) -> TileFrag& { return warps[warp].scores; });
    ForWarps([&](int warp) {
      MathWarp& own = warps[warp];
      ToScores(call, rows, warp, own.keys, key, nullptr, &own.scores);
      RaiseToLargest(own.scores, &own.maximum);
      StoreScores(own.scores, tile, warp, scores);
    });
  }
  ForWarps([&](int warp) {
    MathWarp& own = warps[warp];
    LargestOfQuads(&own.maximum);
    for (int32_t tile = first; tile < end; ++tile) {
      LoadScores(scores, tile, warp, &own.scores);
      ToWeights(own.maximum, &own.scores, &own.sum);
      StoreScores(own.scores, tile, warp, scores);
    }
    SumQuads(&own.sum);
    AddSinks(call, rows, warp, own.maximum, &own.sum);
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int half = 0; half < 2; ++half) {
        float& sum = own.sum.at(lane, half);
        sum = sum == 0.0F ? 0.0F : 1.0F / sum;
      }
    });
  });
  for (int32_t first_dim = 0; first_dim < call.values.dim; first_dim += kTileDims) {
    ForWarps([&](int warp) { warps[warp].out.Fill(0.0F); });
    for (int32_t tile = first; tile < end; ++tile) {
      work.WeighTile(tile * kTileRows, first_dim, [&](int warp, const auto& weigh) {
        MathWarp& own = warps[warp];
        LoadScores(scores, tile, warp, &own.scores);
        ForLanes([&](int lane) {
          DUNLIN_UNROLL
          for (int r = 0; r < 32; ++r) own.scores.at(lane, r) *= own.sum.at(lane, r % 4 / 2);
        });
        weigh(own.scores, own.keys, &own.out);
      });
    }
    ForWarps([&](int warp) {
      RowFrag one;
      one.Fill(1.0F);
      StoreOutputs(call, rows, warp, first_dim, 0, one, warps[warp].out);
    });
  }
}

}  // namespace dunlin::kernels::cuda
