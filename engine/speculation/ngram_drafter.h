// SPDX-License-Identifier: Apache-2.0
// Prompt lookup: where the last few tokens stood before, in the prompt or in the output, the tokens that followed there
// follow again. The longer of two n-grams is looked for first, its latest place wins. Places are kept in hash tables of
// a fixed size; where one is full, later n-grams take the places of earlier ones. Source of the method: Saxena 2023,
// "Prompt Lookup Decoding".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/drafter.h"

namespace dunlin::engine {

class NgramDrafter final : public Drafter {
 public:
  // Tokens of the n-grams. Three are the fewest whose guesses in prose are right often enough to pay for a row; six
  // tell apart the places of a text that repeats itself, as programs do.
  static constexpr std::array<size_t, 2> kLengths = {6, 3};

  // Remembers the n-grams of `prompt`. The tables take 16 to 32 bytes for each token of the prompt and of the output,
  // of which at most 4096 tokens are counted.
  NgramDrafter(std::span<const TokenId> prompt, int32_t max_tokens);

  // Past the end of `tokens` the guess goes on with itself: what repeats goes on repeating.
  void Draft(std::span<const TokenId> tokens, int32_t max_drafts, std::vector<TokenId>* drafts) override;

 private:
  // Remembers the n-grams that another token of `tokens` follows.
  void Learn(std::span<const TokenId> tokens);
  // The slot of the n-gram in front of `place` in table `table`: the one that has it, an empty one, or the one to be
  // overwritten.
  uint32_t& SlotOf(std::span<const TokenId> tokens, size_t place, size_t table);

  // By hash: the place of the token behind an n-gram; 0: empty, because no n-gram ends there.
  std::array<std::vector<uint32_t>, kLengths.size()> places_;
  size_t num_learned_ = 0;  // tokens behind an n-gram that have been looked at
};

}  // namespace dunlin::engine
