// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/logit_edits.h"

#include <algorithm>
#include <bit>

#include "engine/sampling/banned_tokens.h"

namespace dunlin::engine {

size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids) {
  return size_t{2} * kMaxLogitBias + size_t{2} * static_cast<size_t>(std::min(vocab_size, max_context_tokens)) +
         MaxBannedTokens(num_eos_token_ids) + static_cast<size_t>(kernels::MaskWords(vocab_size));
}

size_t NumEditWords(const LogitEditInput& input) {
  return 2 * input.biases.size() + 2 * input.counts.size() + input.banned.size() +
         std::max(input.mask.size(), input.grammar.size());
}

kernels::EditLists WriteEdits(const LogitEditInput& input, uint32_t* words, size_t first_word) {
  uint32_t* word = words + first_word;
  for (const auto& [id, bias] : input.biases) {
    *word++ = static_cast<uint32_t>(id);
    *word++ = std::bit_cast<uint32_t>(bias);
  }
  for (const TokenCount& token : input.counts) {
    *word++ = static_cast<uint32_t>(token.id);
    *word++ = static_cast<uint32_t>(token.count);
  }
  for (const TokenId id : input.banned) *word++ = static_cast<uint32_t>(id);
  const std::span<const uint32_t> mask = input.mask.empty() ? input.grammar : input.mask;
  std::copy(mask.begin(), mask.end(), word);
  if (!input.mask.empty() && !input.grammar.empty()) {
    for (size_t i = 0; i < mask.size(); ++i) word[i] &= input.grammar[i];
  }
  return {.first_word = static_cast<int32_t>(first_word),
          .num_biases = static_cast<int32_t>(input.biases.size()),
          .num_counts = static_cast<int32_t>(input.counts.size()),
          .num_banned = static_cast<int32_t>(input.banned.size()),
          .has_mask = !mask.empty()};
}

}  // namespace dunlin::engine
