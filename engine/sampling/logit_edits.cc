// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/logit_edits.h"

#include <algorithm>
#include <bit>

#include "engine/sampling/banned_tokens.h"
#include "kernels/api/logits.h"

namespace dunlin::engine {

size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids) {
  return size_t{2} * kMaxLogitBias + size_t{2} * static_cast<size_t>(std::min(vocab_size, max_context_tokens)) +
         MaxBannedTokens(num_eos_token_ids) + static_cast<size_t>(kernels::MaskWords(vocab_size));
}

LogitEdits::LogitEdits(int32_t vocab_size) : vocab_size_(vocab_size), counts_(static_cast<size_t>(vocab_size)) {}

size_t LogitEdits::MaxWords(const LogitEditInput& input) const {
  return 2 * input.biases.size() + 2 * std::min(static_cast<size_t>(vocab_size_), input.history.size()) +
         input.banned.size() + input.mask.size();
}

kernels::EditLists LogitEdits::Write(const LogitEditInput& input, uint32_t* words, size_t first_word) {
  kernels::EditLists lists;
  lists.first_word = static_cast<int32_t>(first_word);
  uint32_t* word = words + first_word;
  for (const auto& [id, bias] : input.biases) {
    *word++ = static_cast<uint32_t>(id);
    *word++ = std::bit_cast<uint32_t>(bias);
  }
  lists.num_biases = static_cast<int32_t>(input.biases.size());
  lists.num_counts = WriteCounts(input, word);
  word += 2 * static_cast<int64_t>(lists.num_counts);
  for (const TokenId id : input.banned) *word++ = static_cast<uint32_t>(id);
  lists.num_banned = static_cast<int32_t>(input.banned.size());
  lists.has_mask = !input.mask.empty();
  std::copy(input.mask.begin(), input.mask.end(), word);
  return lists;
}

int32_t LogitEdits::WriteCounts(const LogitEditInput& input, uint32_t* word) {
  const auto prompt_len = static_cast<size_t>(input.prompt_len);
  for (size_t i = 0; i < input.history.size(); ++i) {
    int32_t& count = counts_[static_cast<size_t>(input.history[i])];
    if (i < prompt_len) {
      count |= kernels::kInPrompt;
    } else {
      ++count;
    }
  }
  int32_t num_counts = 0;
  for (const TokenId id : input.history) {
    // Zeroing a count as it is written skips the token's later occurrences.
    const int32_t count = std::exchange(counts_[static_cast<size_t>(id)], 0);
    if (count == 0) continue;
    *word++ = static_cast<uint32_t>(id);
    *word++ = static_cast<uint32_t>(count);
    ++num_counts;
  }
  return num_counts;
}

}  // namespace dunlin::engine
