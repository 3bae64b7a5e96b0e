// SPDX-License-Identifier: Apache-2.0
// Rows that enter a decoder's first layer in place of the embeddings of tokens: those that an image encoder made.
// Plain data, immutable once it is in a request.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/request/token_constraint.h"

namespace dunlin::engine {

// Ids of a prompt from here on stand for such rows. They say which: two prompts of a model that are equal up to and
// with such an id have equal rows there, of spans with equal image_columns, so that the prefix cache compares them as
// it does tokens. No device sees them, and nothing is drawn or counted by them.
inline constexpr TokenId kFirstRowToken = TokenId{1} << 30;

constexpr bool IsRowToken(TokenId id) {
  return id >= kFirstRowToken;
}

struct PromptRows {
  struct Span {
    int32_t first = 0;  // position in the prompt
    int32_t count = 0;  // >= 1
    // Of models that rotate tokens of images by row and column (RotarySpec::axes): the span is one image, from its
    // upper left row by row, of so many columns, which divide count. 0: of all others.
    int32_t image_columns = 0;
  };
  std::vector<Span> spans;    // ascending, disjoint: exactly the places of the prompt that have row tokens
  int32_t columns = 0;        // the model's hidden_dim
  std::vector<float> values;  // [sum of counts, columns], finite; neither scaled nor normed as embeddings may be
};

}  // namespace dunlin::engine
