// SPDX-License-Identifier: Apache-2.0
// Texts that must not be generated, as token sequences. Pure functions, any thread; they take time linear in the text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request/request_field.h"
#include "engine/request/types.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// Appends the sequences of one text: it without leading whitespace, and the same after a space where that is as many
// tokens and begins with another one. Returns what is wrong with bad_words[index] instead: no token, or more than
// kMaxBadWordTokens. Source of the rule: SamplingParams.update_from_tokenizer of vLLM.
std::optional<engine::Violation> AppendBadWord(const std::string& text, int64_t index, const text::Tokenizer& tokenizer,
                                               std::vector<std::vector<engine::TokenId>>* bad_words);

// Removes the sequences that are one end-of-sequence token, which would keep an output from ending. Source:
// NoBadWordsLogitsProcessor of transformers.
void DropEndOfSequence(std::span<const engine::TokenId> eos_token_ids,
                       std::vector<std::vector<engine::TokenId>>* bad_words);

}  // namespace dunlin::server
