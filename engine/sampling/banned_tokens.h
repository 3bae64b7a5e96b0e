// SPDX-License-Identifier: Apache-2.0
// Which tokens a request does not let be drawn next: stop tokens before min_tokens, suppressed tokens, the ends of bad
// words. Source of the bad words: NoBadWordsLogitsProcessor of transformers 4 and 5; unlike it, a word is also ended
// where the others of its tokens are the whole prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

// The most that AppendBanned appends.
constexpr size_t MaxBannedTokens(size_t num_eos_token_ids) {
  return kMaxStopTokenIds + num_eos_token_ids + 2 * size_t{kMaxSuppressedTokenIds} + kMaxBadWords;
}

// Appends the tokens that are banned from following `tokens`, which are the prompt and the output so far, to *banned. A
// token may occur more than once. Allocates nothing where *banned has room for MaxBannedTokens more.
void AppendBanned(std::span<const TokenId> tokens, int32_t prompt_len, const SamplingParams& sampling,
                  const StoppingParams& stopping, std::span<const TokenId> eos_token_ids, std::vector<TokenId>* banned);

}  // namespace dunlin::engine
