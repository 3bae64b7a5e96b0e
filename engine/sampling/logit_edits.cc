#include "engine/sampling/logit_edits.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/api/logits.h"

namespace dunlin::engine {
namespace {

using kernels::kInPrompt;

bool HasPenalty(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F;
}

bool BelowMinimum(const SampleInput& input) {
  return input.num_output() < input.stopping->min_tokens;
}

}  // namespace

size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids) {
  return size_t{2} * kMaxLogitBias + size_t{2} * static_cast<size_t>(std::min(vocab_size, max_context_tokens)) +
         kMaxStopTokenIds + num_eos_token_ids + static_cast<size_t>(kernels::MaskWords(vocab_size));
}

LogitEdits::LogitEdits(int32_t vocab_size, std::vector<TokenId> eos_token_ids)
    : vocab_size_(vocab_size), eos_token_ids_(std::move(eos_token_ids)), counts_(static_cast<size_t>(vocab_size)) {}

size_t LogitEdits::MaxWords(const SampleInput& input) const {
  size_t words = 2 * input.sampling->logit_bias.size();
  if (HasPenalty(*input.sampling)) words += size_t{2} * static_cast<size_t>(std::min(vocab_size_, input.num_tokens));
  if (BelowMinimum(input)) words += input.stopping->stop_token_ids.size() + eos_token_ids_.size();
  if (input.allowed_tokens != nullptr) words += static_cast<size_t>(kernels::MaskWords(vocab_size_));
  return words;
}

kernels::EditLists LogitEdits::Write(const SampleInput& input, uint32_t* words, size_t first_word) {
  kernels::EditLists lists;
  lists.first_word = static_cast<int32_t>(first_word);
  uint32_t* word = words + first_word;
  for (const auto& [id, bias] : input.sampling->logit_bias) {
    *word++ = static_cast<uint32_t>(id);
    *word++ = std::bit_cast<uint32_t>(bias);
    ++lists.num_biases;
  }
  if (HasPenalty(*input.sampling)) lists.num_counts = WriteCounts(input, word);
  word += 2 * static_cast<int64_t>(lists.num_counts);
  if (BelowMinimum(input)) lists.num_banned = WriteBanned(*input.stopping, word);
  word += lists.num_banned;
  lists.has_mask = input.allowed_tokens != nullptr;
  if (lists.has_mask) std::copy_n(input.allowed_tokens, kernels::MaskWords(vocab_size_), word);
  return lists;
}

int32_t LogitEdits::WriteCounts(const SampleInput& input, uint32_t* word) {
  for (int32_t i = 0; i < input.num_tokens; ++i) {
    int32_t& count = counts_[static_cast<size_t>(input.tokens[i])];
    if (i < input.prompt_len) {
      count |= kInPrompt;
    } else {
      ++count;
    }
  }
  int32_t num_counts = 0;
  for (int32_t i = 0; i < input.num_tokens; ++i) {
    // Zeroing a count where it is written makes each token's first occurrence the only one that is.
    const int32_t count = std::exchange(counts_[static_cast<size_t>(input.tokens[i])], 0);
    if (count == 0) continue;
    *word++ = static_cast<uint32_t>(input.tokens[i]);
    *word++ = static_cast<uint32_t>(count);
    ++num_counts;
  }
  return num_counts;
}

int32_t LogitEdits::WriteBanned(const StoppingParams& stopping, uint32_t* word) const {
  const uint32_t* first = word;
  for (const TokenId id : stopping.stop_token_ids) *word++ = static_cast<uint32_t>(id);
  for (size_t i = 0; !stopping.ignore_eos && i < eos_token_ids_.size(); ++i) {
    *word++ = static_cast<uint32_t>(eos_token_ids_[i]);
  }
  return static_cast<int32_t>(word - first);
}

kernels::SampleRow DrawRow(const SampleInput& input, const kernels::EditLists& edits) {
  const SamplingParams& sampling = *input.sampling;
  kernels::SampleRow row;
  row.temperature = sampling.temperature;
  row.top_k = sampling.top_k;
  row.top_p = sampling.top_p;
  row.min_p = sampling.min_p;
  row.repetition_penalty = sampling.repetition_penalty;
  row.presence_penalty = sampling.presence_penalty;
  row.frequency_penalty = sampling.frequency_penalty;
  row.logprobs = sampling.logprobs;
  row.seed = sampling.seed;
  row.output_index = input.output_index;
  row.position = input.num_tokens;
  row.edits = edits;
  return row;
}

kernels::SampleRow ScoreRow(TokenId token, int32_t logprobs) {
  kernels::SampleRow row;
  row.scored_token = token;
  row.logprobs = logprobs;
  return row;
}

}  // namespace dunlin::engine
