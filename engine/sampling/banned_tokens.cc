// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/banned_tokens.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

void Append(std::span<const TokenId> ids, std::vector<TokenId>* banned) {
  banned->insert(banned->end(), ids.begin(), ids.end());
}

// Whether the last token of `word` would complete it after `tokens`.
bool Completes(std::span<const TokenId> word, std::span<const TokenId> tokens) {
  const std::span<const TokenId> prefix = word.first(word.size() - 1);
  if (prefix.size() > tokens.size()) return false;
  return std::equal(prefix.begin(), prefix.end(), tokens.end() - static_cast<std::ptrdiff_t>(prefix.size()));
}

}  // namespace

void AppendBanned(std::span<const TokenId> tokens, int32_t prompt_len, const SamplingParams& sampling,
                  const StoppingParams& stopping, std::span<const TokenId> eos_token_ids,
                  std::vector<TokenId>* banned) {
  const auto num_output = static_cast<int32_t>(tokens.size()) - prompt_len;
  if (num_output < stopping.min_tokens) {
    Append(stopping.stop_token_ids, banned);
    if (!stopping.ignore_eos) Append(eos_token_ids, banned);
  }
  Append(sampling.suppressed_token_ids, banned);
  if (num_output == 0) Append(sampling.begin_suppressed_token_ids, banned);
  for (const std::vector<TokenId>& word : sampling.bad_words) {
    if (Completes(word, tokens)) banned->push_back(word.back());
  }
}

}  // namespace dunlin::engine
