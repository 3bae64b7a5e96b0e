// SPDX-License-Identifier: Apache-2.0
// A block's 64 packed rows of one (sequence, KV head), and a warp's operations on their scores and outputs. A warp has
// 16 of the rows; registers are laid out by ProductSlot, and a lane's two rows are those of its registers 0 and 2.
#pragma once

#include "kernels/cuda/attention/call.h"
#include "kernels/cuda/attention/tile_products.h"
#include "kernels/cuda/block/block_program.h"

namespace dunlin::kernels::cuda {

using RowFrag = Frag<float, 2>;  // one value for each of a lane's two rows

struct RowBlock {
  SequenceView sequence;
  int32_t kv_head;
  int32_t first_row;  // packed
  int32_t num_rows;   // <= 64; 0: the block has no work
  int32_t group;
  int32_t key_start;  // the range of keys that the block reads: from the first row's start to the last row's limit
  int32_t key_limit;
  int32_t whole_start;  // the keys that every row sees
  int32_t whole_limit;

  DUNLIN_HD int32_t Token(int32_t row) const { return (first_row + row) / group; }
  DUNLIN_HD int32_t Head(int32_t row) const { return kv_head * group + (first_row + row) % group; }
  DUNLIN_HD bool has(int warp) const { return warp * 16 < num_rows; }
  DUNLIN_HD int64_t task(int32_t num_kv_heads) const { return int64_t{sequence.index} * num_kv_heads + kv_head; }
  // Whether every row sees each of the tile's keys.
  DUNLIN_HD bool SeesAll(int32_t first_key) const {
    return whole_start <= first_key && first_key + kTileRows <= whole_limit;
  }
};

DUNLIN_HD inline RowBlock BlockOf(const AttentionCall& call, int32_t sequence, int32_t kv_head, int32_t block) {
  RowBlock rows{};
  rows.sequence = call.Sequence(sequence);
  rows.kv_head = kv_head;
  rows.first_row = block * kTileRows;
  rows.num_rows = Clamp(rows.sequence.query_len * call.group - rows.first_row, 0, kTileRows);
  rows.group = call.group;
  if (rows.num_rows == 0) return rows;
  const int32_t first = rows.Token(0);
  const int32_t last = rows.Token(rows.num_rows - 1);
  rows.key_start = rows.sequence.KeyStart(first);
  rows.key_limit = rows.sequence.KeyLimit(last);
  rows.whole_start = rows.sequence.KeyStart(last);
  rows.whole_limit = rows.sequence.KeyLimit(first);
  return rows;
}

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

constexpr float kLog2E = 1.44269504F;

// The base-2 exponent of one score: scale, softcap, ALiBi, bias and mask applied to a query-key product. limit: the
// row's KeyLimit. REQUIRES: the row sees the key.
DUNLIN_HD inline float AdjustedScore(const AttentionCall& call, const RowBlock& block, int32_t row, int32_t key,
                                     int32_t limit, float product) {
  float score = product * call.scale;
  if (call.softcap > 0.0F) score = call.softcap * tanhf(score / call.softcap);
  const int32_t token = block.Token(row);
  const int32_t head = block.Head(row);
  // By the distance from the limit: from the position but for a constant of the row, which the softmax takes out.
  if (call.alibi_slopes != nullptr) score += call.alibi_slopes[head] * static_cast<float>(key - limit);
  if (call.bias.data != nullptr) {
    const int64_t at = block.sequence.index * call.bias.batch_stride + head * call.bias.head_stride +
                       token * call.bias.query_stride + key;
    score += LoadElement(call.bias.dtype, static_cast<const unsigned char*>(call.bias.data), at);
  }
  if (call.mask.data != nullptr) {
    const int64_t at = block.sequence.index * call.mask.batch_stride + head * call.mask.head_stride +
                       token * call.mask.query_stride + key;
    if (call.mask.data[at] == 0) return -INFINITY;
  }
  return score * kLog2E;
}

// Applies them to the scores of a tile that needs them. A loop, because the body is large and the case rare; the
// register is selected by comparison, because registers cannot be indexed.
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
      score = key < start || key >= limit ? -INFINITY : AdjustedScore(call, block, row, key, limit, score);
      DUNLIN_UNROLL
      for (int i = 0; i < 32; ++i) scores->at(lane, i) = i == r ? score : scores->at(lane, i);
    }
  });
}

// Turns the products of the tile at first_key into scores, -inf where a row does not see a key. key_scales: of E4M3
// codes, or null. Tiles that all rows see completely take a shorter path with the same bits.
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
  if (call.adjusts()) return AdjustScores(call, block, warp, keys, first_key, scores);
  const bool sees_all = block.SeesAll(first_key);
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

// What is subtracted from the scores before exponentiation; 0 where all scores are -inf, so that the weights are 0.
DUNLIN_HD inline float CenterOf(float largest) {
  return largest == -INFINITY ? 0.0F : largest;
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

// What the sink of a row's head adds to the sum of its softmax, whose largest exponent is `maximum`: a logit without a
// value. 0 without sinks, and where the row saw no key. row: packed, of the block.
DUNLIN_HD inline float SinkTerm(const AttentionCall& call, const RowBlock& block, int32_t row, float maximum,
                                float sum) {
  if (call.sinks == nullptr || sum == 0.0F) return 0.0F;
  float logit = call.sinks[block.Head(row)];
  if (call.alibi_slopes != nullptr) {  // AdjustedScore leaves out a constant of the row
    const int32_t token = block.Token(row);
    const int32_t position = block.sequence.first_limit + token - call.limit_ahead;
    logit -= call.alibi_slopes[block.Head(row)] * static_cast<float>(block.sequence.KeyLimit(token) - position);
  }
  return Exp2(logit * kLog2E - CenterOf(maximum));
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

// Appends the later of two partial softmaxes to the earlier: value * keep + later * take. An empty part changes
// nothing. The same operations in the same order within one block and in the merge kernel.
struct MergeFactors {
  float maximum;
  float sum;
  float keep;
  float take;

  DUNLIN_HD float operator()(float value, float later) const { return fmaf(value, keep, later * take); }
};
DUNLIN_HD inline MergeFactors MergeOf(float maximum, float sum, float later_maximum, float later_sum) {
  if (later_sum == 0.0F) return {maximum, sum, 1.0F, 0.0F};
  const float largest = later_maximum > maximum ? later_maximum : maximum;
  const float keep = sum == 0.0F ? 0.0F : Exp2(maximum - CenterOf(largest));
  const float take = Exp2(later_maximum - CenterOf(largest));
  return {largest, fmaf(sum, keep, later_sum * take), keep, take};
}

DUNLIN_HD inline void StoreElement(DType dtype, unsigned char* row, int64_t at, float value) {
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(row)[at] = value;
  } else {
    reinterpret_cast<uint16_t*>(row)[at] = dtype == DType::kF16 ? ToFp16(value) : ToBf16(value);
  }
}

DUNLIN_HD inline int64_t OutputAt(const AttentionCall& call, const RowBlock& block, int32_t row) {
  return block.sequence.out_start + block.Token(row) * call.out.token_stride + block.Head(row) * call.out.head_stride;
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

}  // namespace dunlin::kernels::cuda
