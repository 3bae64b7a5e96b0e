#include "engine/sampling/logit_edits.h"

#include <limits>
#include <utility>

namespace dunlin::engine {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr int32_t kInPrompt = 1 << 30;  // above any count: a context is far shorter than 2^30 tokens

bool HasPenalty(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F;
}

bool BelowMinimum(const SampleInput& input) {
  return input.num_output() < input.stopping->min_tokens;
}

float Penalize(float x, int32_t count_and_flag, const SamplingParams& sampling) {
  const int32_t count = count_and_flag & (kInPrompt - 1);
  x = x > 0.0F ? x / sampling.repetition_penalty : x * sampling.repetition_penalty;
  x -= sampling.frequency_penalty * static_cast<float>(count);
  if (count > 0) x -= sampling.presence_penalty;
  return x;
}

void KeepAllowed(const uint32_t* allowed, int32_t vocab_size, float* row) {
  for (TokenId id = 0; id < vocab_size; ++id) {
    if ((allowed[id / 32] >> (id % 32) & 1U) == 0) row[id] = kMasked;
  }
}

}  // namespace

LogitEdits::LogitEdits(int32_t vocab_size, std::vector<TokenId> eos_token_ids)
    : vocab_size_(vocab_size), eos_token_ids_(std::move(eos_token_ids)), counts_(static_cast<size_t>(vocab_size)) {}

bool LogitEdits::Needed(const SampleInput& input) const {
  return !input.sampling->logit_bias.empty() || HasPenalty(*input.sampling) || BelowMinimum(input) ||
         input.allowed_tokens != nullptr;
}

void LogitEdits::Apply(const SampleInput& input, float* row) {
  for (const auto& [id, bias] : input.sampling->logit_bias) row[id] += bias;
  if (HasPenalty(*input.sampling)) ApplyPenalties(input, row);
  if (BelowMinimum(input)) MaskStopTokens(*input.stopping, row);
  if (input.allowed_tokens != nullptr) KeepAllowed(input.allowed_tokens, vocab_size_, row);
}

void LogitEdits::ApplyPenalties(const SampleInput& input, float* row) {
  for (int32_t i = 0; i < input.num_tokens; ++i) {
    int32_t& count = counts_[static_cast<size_t>(input.tokens[i])];
    if (i < input.prompt_len) {
      count |= kInPrompt;
    } else {
      ++count;
    }
  }
  // Zeroing a count where it is used makes each token's first occurrence the only one that counts.
  for (int32_t i = 0; i < input.num_tokens; ++i) {
    int32_t& count = counts_[static_cast<size_t>(input.tokens[i])];
    if (count != 0) row[input.tokens[i]] = Penalize(row[input.tokens[i]], count, *input.sampling);
    count = 0;
  }
}

void LogitEdits::MaskStopTokens(const StoppingParams& stopping, float* row) const {
  for (TokenId id : stopping.stop_token_ids) row[id] = kMasked;
  if (stopping.ignore_eos) return;
  for (TokenId id : eos_token_ids_) row[id] = kMasked;
}

}  // namespace dunlin::engine
