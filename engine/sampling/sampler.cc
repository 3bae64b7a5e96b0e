#include "engine/sampling/sampler.h"

#include <algorithm>
#include <utility>

#include "engine/sampling/exponential.h"
#include "engine/sampling/logits_row.h"
#include "engine/sampling/philox.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kBlock = 256;  // weights are summed by blocks, so that a draw searches vocab/256 + 256 values

// One block in four interleaved FP64 chains, always joined in the same order.
double SumBlock(const float* weights, int32_t count) {
  double lanes[4] = {};
  for (int32_t i = 0; i < count; ++i) lanes[i % 4] += static_cast<double>(weights[i]);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace

Sampler::Sampler(int32_t vocab_size, std::vector<TokenId> eos_token_ids)
    : vocab_size_(vocab_size),
      edits_(vocab_size, std::move(eos_token_ids)),
      edited_(static_cast<size_t>(vocab_size)),
      weights_(static_cast<size_t>(vocab_size)),
      block_sums_(static_cast<size_t>((vocab_size + kBlock - 1) / kBlock)) {}

bool Sampler::Sample(const SampleInput& input, TokenOutput* out) {
  const RowPeak raw = FindPeak(input.logits, vocab_size_);
  if (!raw.valid) return false;
  const float* logits = input.logits;
  RowPeak peak = raw;
  if (edits_.Needed(input)) {
    std::copy(input.logits, input.logits + vocab_size_, edited_.begin());
    edits_.Apply(input, edited_.data());
    logits = edited_.data();
    peak = FindPeak(logits, vocab_size_);
    if (!peak.valid) return false;
  }
  out->token_id = input.sampling->temperature == 0.0F ? peak.argmax : Draw(input, logits, peak.max);
  out->num_top = 0;
  return input.sampling->logprobs < 0 || Score(input.logits, out->token_id, input.sampling->logprobs, out);
}

bool Sampler::Score(const float* logits, TokenId token_id, int32_t num_top, TokenOutput* out) const {
  const RowPeak peak = FindPeak(logits, vocab_size_);
  if (!peak.valid) return false;
  const double log_sum_exp = LogSumExp(logits, vocab_size_, peak.max);
  out->token_id = token_id;
  out->logprob = static_cast<float>(static_cast<double>(logits[token_id]) - log_sum_exp);
  FindTopLogprobs(logits, vocab_size_, log_sum_exp, num_top, out);
  return true;
}

TokenId Sampler::Draw(const SampleInput& input, const float* logits, float max) {
  const float temperature = input.sampling->temperature;
  float* weights = weights_.data();
  for (int32_t i = 0; i < vocab_size_; ++i) weights[i] = ExpNonPositive((logits[i] - max) / temperature);
  truncation_.Apply(*input.sampling, logits, vocab_size_, weights);
  return PickAt(UniformAt(input.sampling->seed, input.output_index, input.num_tokens));
}

TokenId Sampler::PickAt(double uniform) {
  double total = 0.0;
  for (size_t b = 0; b < block_sums_.size(); ++b) {
    const int32_t first = static_cast<int32_t>(b) * kBlock;
    block_sums_[b] = SumBlock(weights_.data() + first, std::min(kBlock, vocab_size_ - first));
    total += block_sums_[b];
  }
  double left = uniform * total;
  size_t block = 0;
  while (block + 1 < block_sums_.size() && left >= block_sums_[block]) left -= block_sums_[block++];

  const auto first = static_cast<int32_t>(block) * kBlock;
  for (TokenId id = first; id < std::min(first + kBlock, vocab_size_); ++id) {
    const auto weight = static_cast<double>(weights_[static_cast<size_t>(id)]);
    if (left < weight) return id;
    left -= weight;
  }
  // Rounding carried the draw past the block's last weight: the nearest token before it that has one.
  TokenId id = std::min(first + kBlock, vocab_size_) - 1;
  while (id > 0 && !(weights_[static_cast<size_t>(id)] > 0.0F)) --id;
  return id;
}

}  // namespace dunlin::engine
