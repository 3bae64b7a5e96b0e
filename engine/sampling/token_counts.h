// SPDX-License-Identifier: Apache-2.0
// How often each token has occurred in a sequence, kept up to date token by token for the penalties: a draw copies the
// list instead of reading the whole sequence. A function of the tokens alone, so that a preemption changes nothing.
// Row tokens are not counted. Start reserves memory for the prompt and a usual output; a longer one doubles it. Thread
// rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

// An element of EditLists' num_counts pairs (kernels/api/sampling.h): the id and the times in the output, + kInPrompt.
struct TokenCount {
  TokenId id;
  int32_t count;
};

class TokenCounts {
 public:
  // Counts `prompt`, with room for `max_tokens` tokens of output, but at most 1024.
  void Start(std::span<const TokenId> prompt, int32_t max_tokens);
  bool started() const { return !slots_.empty(); }
  // Counts a token of the output. No-op before Start. Allocates only where there is no room left.
  void AddOutput(TokenId token);

  // Distinct tokens, in the order in which they first occurred; empty before Start, and where no token is counted yet.
  std::span<const TokenCount> list() const { return list_; }

 private:
  // The element of `token`, added with a count of 0 when it is new.
  TokenCount& At(TokenId token);
  // Where the token's slot is, or would be.
  size_t SlotOf(TokenId token) const;
  void Grow();

  std::vector<TokenCount> list_;
  std::vector<int32_t> slots_;  // open addressing, half full at most: index in list_ + 1, or 0
};

}  // namespace dunlin::engine
