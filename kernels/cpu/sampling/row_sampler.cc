// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/row_sampler.h"

#include <algorithm>

#include "kernels/api/logits.h"
#include "kernels/cpu/sampling/logit_edits.h"
#include "kernels/cpu/sampling/logits_row.h"
#include "kernels/shared/exponential.h"
#include "kernels/shared/philox.h"

namespace dunlin::kernels::cpu {
namespace {

// The sum of one block in four interleaved FP64 chains, combined in a fixed order.
double SumBlock(const float* weights, int32_t count) {
  double lanes[4] = {};
  for (int32_t i = 0; i < count; ++i) lanes[i % 4] += static_cast<double>(weights[i]);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

constexpr int32_t NumBlocks(int32_t vocab_size) {
  return (vocab_size + kWeightBlock - 1) / kWeightBlock;
}

}  // namespace

size_t RowSampler::WorkspaceBytes(int32_t vocab_size) {
  constexpr size_t kAlignment = 64;  // of the next row's workspace
  const size_t bytes = Truncation::WorkspaceBytes(vocab_size) +
                       static_cast<size_t>(NumBlocks(vocab_size)) * sizeof(double) +
                       static_cast<size_t>(vocab_size) * 2 * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

RowSampler::RowSampler(int32_t vocab_size, std::byte* workspace)
    : vocab_size_(vocab_size),
      truncation_(vocab_size, workspace),
      block_sums_(reinterpret_cast<double*>(workspace + Truncation::WorkspaceBytes(vocab_size))),
      edited_(reinterpret_cast<float*>(block_sums_ + NumBlocks(vocab_size))),
      weights_(edited_ + vocab_size) {}

bool RowSampler::Sample(const SampleRow& row, const float* logits, const uint32_t* words, TokenOutput* out) {
  const float* raw = logits;
  RowPeak peak = FindPeak(logits, vocab_size_);
  if (!peak.valid) return false;
  if (HasEdits(row.edits)) {
    std::copy_n(raw, vocab_size_, edited_);
    ApplyEdits(row, words, vocab_size_, edited_);
    logits = edited_;
    peak = FindPeak(logits, vocab_size_);
    if (!peak.valid) return false;
  }
  out->token_id = row.temperature == 0.0F ? peak.argmax : Draw(row, logits, peak.max);
  out->num_top = 0;
  return row.logprobs < 0 || Score(raw, out->token_id, row.logprobs, out);
}

bool RowSampler::Score(const float* logits, int32_t token_id, int32_t num_top, TokenOutput* out) const {
  const RowPeak peak = FindPeak(logits, vocab_size_);
  if (!peak.valid) return false;
  const double log_sum_exp = LogSumExp(logits, vocab_size_, peak.max);
  out->token_id = token_id;
  out->logprob = static_cast<float>(static_cast<double>(logits[token_id]) - log_sum_exp);
  out->rank = CountAtLeast(logits, vocab_size_, logits[token_id]);
  FindTopLogprobs(logits, vocab_size_, log_sum_exp, num_top, out);
  return true;
}

int32_t RowSampler::Draw(const SampleRow& row, const float* logits, float max) {
  for (int32_t i = 0; i < vocab_size_; ++i) weights_[i] = ExpNonPositive((logits[i] - max) / row.temperature);
  truncation_.Apply(row, logits, max, vocab_size_, weights_);
  return PickAt(UniformAt(row.seed, row.output_index, row.position));
}

int32_t RowSampler::PickAt(double uniform) {
  double total = 0.0;
  const int32_t blocks = NumBlocks(vocab_size_);
  for (int32_t b = 0; b < blocks; ++b) {
    const int32_t first = b * kWeightBlock;
    block_sums_[b] = SumBlock(weights_ + first, std::min(kWeightBlock, vocab_size_ - first));
    total += block_sums_[b];
  }
  double left = uniform * total;
  int32_t block = 0;
  while (block + 1 < blocks && left >= block_sums_[block]) left -= block_sums_[block++];

  const int32_t first = block * kWeightBlock;
  const int32_t end = std::min(first + kWeightBlock, vocab_size_);
  for (int32_t id = first; id < end; ++id) {
    const auto weight = static_cast<double>(weights_[id]);
    if (left < weight) return id;
    left -= weight;
  }
  // Rounding carried the draw past the last weight of the block: the nearest token before it with a nonzero weight.
  int32_t id = end - 1;
  while (id > 0 && !(weights_[id] > 0.0F)) --id;
  return id;
}

}  // namespace dunlin::kernels::cpu
