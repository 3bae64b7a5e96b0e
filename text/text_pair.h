// SPDX-License-Identifier: Apache-2.0
// The tokens of a pair of texts, as a cross-encoder reads it. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/types.h"
#include "text/tokenizer.h"

namespace dunlin::text {

// Of two texts of `first` and `second` tokens, so many are kept where together they may have `room`: the longer one
// loses its end first, and both have half once they are equally long. Source: Hugging Face tokenizers 0.23, truncation
// "longest_first".
struct PairLengths {
  size_t first;
  size_t second;
};
PairLengths TruncatePair(size_t first, size_t second, size_t room);

// Appends the pair with its special tokens to *tokens. Returns how many of them have token type 0.
int32_t AppendPair(const PairFrame& frame, std::span<const engine::TokenId> first,
                   std::span<const engine::TokenId> second, std::vector<engine::TokenId>* tokens);

}  // namespace dunlin::text
