// SPDX-License-Identifier: Apache-2.0
// One row of logits to a token, by one group of lanes, as SampleParams specifies. Every pass rereads the row and
// recomputes weights, so any vocabulary fits. The token does not depend on the number of lanes: truncation sums
// integers and then bins in one order, and the draw's sums have the CPU's order. Passes: the largest logit, two or
// three for truncation, one for the draw.
#pragma once

#include <cmath>

#include "kernels/api/logits.h"
#include "kernels/cuda/sampling/row_scores.h"
#include "kernels/cuda/sampling/token_cut.h"
#include "kernels/shared/philox.h"

namespace dunlin::kernels::cuda {

// A row's share of the workspace.
struct SampleScratch {
  float* edited;       // [vocab_size] the row after the edits
  double* block_sums;  // [ceil(vocab_size / kWeightBlock)]
};

DUNLIN_HD inline int32_t WeightBlocks(int32_t vocab_size) {
  return (vocab_size + kWeightBlock - 1) / kWeightBlock;
}
inline int64_t SampleScratchBytes(int32_t vocab_size) {
  return RoundUpTo(int64_t{vocab_size} * 4, 16) + RoundUpTo(int64_t{WeightBlocks(vocab_size)} * 8, 16);
}
DUNLIN_HD inline SampleScratch ScratchOf(void* workspace, int64_t row_bytes, int32_t vocab_size, int64_t row) {
  unsigned char* at = static_cast<unsigned char*>(workspace) + row * row_bytes;
  return {reinterpret_cast<float*>(at), reinterpret_cast<double*>(at + RoundUpTo(int64_t{vocab_size} * 4, 16))};
}

// A row's logits after its edits, in `edited`.
template <typename Lanes>
DUNLIN_HD void EditRow(const Lanes& lanes, const SampleRow& row, const uint32_t* words, int32_t vocab_size,
                       const float* logits, float* edited) {
  const EditLists& edits = row.edits;
  const uint32_t* biases = words + edits.first_word;
  const uint32_t* counts = biases + 2 * edits.num_biases;
  const uint32_t* banned = counts + 2 * edits.num_counts;
  const uint32_t* mask = banned + edits.num_banned;
  for (int32_t i = lanes.index(); i < vocab_size; i += lanes.count()) edited[i] = logits[i];
  lanes.Sync();
  for (int32_t i = lanes.index(); i < edits.num_biases; i += lanes.count()) {
    edited[biases[2 * i]] += BitsToFloat(biases[2 * i + 1]);
  }
  lanes.Sync();
  for (int32_t i = lanes.index(); i < edits.num_counts; i += lanes.count()) {
    float& x = edited[counts[2 * i]];
    x = Penalized(x, static_cast<int32_t>(counts[2 * i + 1]), row);
  }
  lanes.Sync();
  for (int32_t i = lanes.index(); i < edits.num_banned; i += lanes.count()) edited[banned[i]] = -INFINITY;
  lanes.Sync();
  if (!edits.has_mask) return;
  for (int32_t i = lanes.index(); i < vocab_size; i += lanes.count()) {
    if (!Allows(mask, i)) edited[i] = -INFINITY;
  }
  lanes.Sync();
}

// The sum of a block of weights: four chains, as at kWeightBlock.
DUNLIN_HD inline double SumOfBlock(const KeptWeights& weights, int32_t first, int32_t end) {
  double chains[4] = {};
  DUNLIN_NO_UNROLL
  for (int32_t id = first; id < end; id += 4) {
    for (int k = 0; k < 4; ++k) {
      const float weight = id + k < end ? weights(id + k) : 0.0F;
      if (weight > 0.0F) chains[k] += static_cast<double>(weight);  // FP64 is slow on most devices, and few have weight
    }
  }
  return (chains[0] + chains[1]) + (chains[2] + chains[3]);
}

// Where a draw ends: a block of ids, and what is left of the draw at its start.
struct DrawnBlock {
  int32_t first;
  int32_t end;
  double left;
};

// The block in which the running sum of the weights, by ascending id, passes uniform * their total.
DUNLIN_HD inline DrawnBlock PickBlock(int32_t vocab_size, const double* block_sums, double uniform) {
  const int32_t blocks = WeightBlocks(vocab_size);
  double total = 0.0;
  for (int32_t b = 0; b < blocks; ++b) total += block_sums[b];
  double left = uniform * total;
  int32_t block = 0;
  while (block + 1 < blocks && left >= block_sums[block]) left -= block_sums[block++];
  const int32_t first = block * kWeightBlock;
  const int32_t end = first + kWeightBlock < vocab_size ? first + kWeightBlock : vocab_size;
  return {first, end, left};
}

// The token of the block at which the draw ends. picked: the block's weights.
DUNLIN_HD inline int32_t PickToken(const KeptWeights& weights, const DrawnBlock& block, const float* picked) {
  double left = block.left;
  for (int32_t id = block.first; id < block.end; ++id) {
    const auto weight = static_cast<double>(picked[id - block.first]);
    if (left < weight) return id;
    left -= weight;
  }
  // Rounding carried the draw past the block's last weight: take the nearest preceding token with a weight.
  int32_t id = block.end - 1;
  while (id > 0 && !(weights(id) > 0.0F)) --id;
  return id;
}

// Lane 0 returns the token. top: of `logits`.
template <typename Lanes>
DUNLIN_HD int32_t DrawToken(const Lanes& lanes, const SampleRow& row, const float* logits, int32_t vocab_size,
                            const RowTop& top, double* block_sums, SampleShared* shared) {
  const float max = logits[top.id];
  CutSearch<Lanes> search{lanes,
                          {logits, max, row.temperature, row.min_p},
                          vocab_size,
                          WeightBins::Of(max, top.lowest, row.temperature),
                          shared};
  search.Truncate(row.top_k, row.top_p);
  const KeptWeights& weights = search.weights;
  lanes.BeginPass();
  for (int32_t b = lanes.index(); b < WeightBlocks(vocab_size); b += lanes.count()) {
    const int32_t first = b * kWeightBlock;
    const int32_t end = first + kWeightBlock;
    block_sums[b] = SumOfBlock(weights, first, end < vocab_size ? end : vocab_size);
  }
  lanes.Sync();
  DrawnBlock block{};
  if (lanes.index() == 0) {
    block = PickBlock(vocab_size, block_sums, UniformAt(row.seed, row.output_index, row.position));
    shared->chosen = block.first;
  }
  lanes.Sync();
  for (int32_t i = lanes.index(); i < kWeightBlock; i += lanes.count()) {
    const int32_t id = shared->chosen + i;
    shared->picked[i] = id < vocab_size ? weights(id) : 0.0F;
  }
  lanes.Sync();
  return lanes.index() == 0 ? PickToken(weights, block, shared->picked) : 0;
}

// The row's token before it is scored; valid: as SampledToken.
template <typename Lanes>
DUNLIN_HD RowTop ChooseToken(const Lanes& lanes, const SampleParams& params, const SampleRow& row, const float* logits,
                             const RowTop& raw, const SampleScratch& scratch, SampleShared* shared) {
  if (row.scored_token >= 0) return {.valid = true, .id = row.scored_token};
  RowTop top = raw;
  const EditLists& edits = row.edits;
  if (edits.num_biases > 0 || edits.num_counts > 0 || edits.num_banned > 0 || edits.has_mask) {
    EditRow(lanes, row, params.words, params.vocab_size, logits, scratch.edited);
    logits = scratch.edited;
    top = FindTop(lanes, logits, params.vocab_size);
  }
  if (!top.valid || row.temperature == 0.0F) return top;
  top.id = DrawToken(lanes, row, logits, params.vocab_size, top, scratch.block_sums, shared);
  return top;
}

// Processes row `index` of a call. shared: of the lanes' block.
template <typename Lanes>
DUNLIN_HD void SampleOneRow(const Lanes& lanes, const SampleParams& params, int64_t row_bytes, int64_t index,
                            SampleShared* shared) {
  const SampleRow& row = params.rows[index];
  const float* logits = params.logits + index * params.vocab_size;
  SampledToken* out = params.out + index;
  const RowTop raw = FindTop(lanes, logits, params.vocab_size);
  RowTop chosen = raw;
  if (raw.valid) {
    chosen = ChooseToken(lanes, params, row, logits, raw,
                         ScratchOf(params.workspace, row_bytes, params.vocab_size, index), shared);
  }
  if (lanes.index() == 0) {
    out->valid = chosen.valid;
    out->token.token_id = chosen.id;
    out->token.num_top = 0;
  }
  if (!chosen.valid || row.logprobs < 0) return;
  ScoreToken(lanes, params, row, logits, logits[raw.id], chosen.id, &out->token);
}

}  // namespace dunlin::kernels::cuda
