// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/logit_edits.h"

#include <algorithm>
#include <bit>

#include "engine/sampling/banned_tokens.h"

namespace dunlin::engine {
namespace {

// The pair of `id` in words[first, end), or end.
uint32_t* FindCount(uint32_t* first, uint32_t* end, TokenId id) {
  while (first != end && *first != static_cast<uint32_t>(id)) first += 2;
  return first;
}

// Distinct drafts without a pair in counts.
size_t NumNewTokens(const LogitEditInput& input) {
  if (input.counts.empty()) return 0;
  size_t count = 0;
  for (size_t i = 0; i < input.drafts.size(); ++i) {
    const TokenId id = input.drafts[i];
    const auto before = input.drafts.first(i);
    const auto is_id = [id](const TokenCount& token) { return token.id == id; };
    const bool known = std::any_of(input.counts.begin(), input.counts.end(), is_id) ||
                       std::find(before.begin(), before.end(), id) != before.end();
    count += known ? 0 : 1;
  }
  return count;
}

// Returns the end of the pairs.
uint32_t* WriteCounts(const LogitEditInput& input, uint32_t* word) {
  uint32_t* const first = word;
  for (const TokenCount& token : input.counts) {
    *word++ = static_cast<uint32_t>(token.id);
    *word++ = static_cast<uint32_t>(token.count);
  }
  if (input.counts.empty()) return word;
  for (const TokenId id : input.drafts) {
    uint32_t* const pair = FindCount(first, word, id);
    if (pair != word) {
      ++pair[1];
      continue;
    }
    *word++ = static_cast<uint32_t>(id);
    *word++ = 1;
  }
  return word;
}

}  // namespace

size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids) {
  return size_t{2} * kMaxLogitBias + size_t{2} * static_cast<size_t>(std::min(vocab_size, max_context_tokens)) +
         MaxBannedTokens(num_eos_token_ids) + static_cast<size_t>(kernels::MaskWords(vocab_size));
}

size_t NumEditWords(const LogitEditInput& input) {
  return 2 * input.biases.size() + 2 * (input.counts.size() + NumNewTokens(input)) + input.banned.size() +
         std::max(input.mask.size(), input.grammar.size());
}

kernels::EditLists WriteEdits(const LogitEditInput& input, uint32_t* words, size_t first_word) {
  uint32_t* word = words + first_word;
  for (const auto& [id, bias] : input.biases) {
    *word++ = static_cast<uint32_t>(id);
    *word++ = std::bit_cast<uint32_t>(bias);
  }
  uint32_t* const counts_end = WriteCounts(input, word);
  const auto num_counts = static_cast<int32_t>((counts_end - word) / 2);
  word = counts_end;
  for (const TokenId id : input.banned) *word++ = static_cast<uint32_t>(id);
  const std::span<const uint32_t> mask = input.mask.empty() ? input.grammar : input.mask;
  std::copy(mask.begin(), mask.end(), word);
  if (!input.mask.empty() && !input.grammar.empty()) {
    for (size_t i = 0; i < mask.size(); ++i) word[i] &= input.grammar[i];
  }
  return {.first_word = static_cast<int32_t>(first_word),
          .num_biases = static_cast<int32_t>(input.biases.size()),
          .num_counts = num_counts,
          .num_banned = static_cast<int32_t>(input.banned.size()),
          .has_mask = !mask.empty()};
}

}  // namespace dunlin::engine
