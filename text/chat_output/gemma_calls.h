// SPDX-License-Identifier: Apache-2.0
// Gemma 4's calls: call:NAME{key:VALUE,key:VALUE}. Keys are bare; a value is a text between two <|"|>, without escapes,
// a number or a word, or a list or an object of values.
// Source: the model's chat template.
#pragma once

#include <memory>
#include <string_view>

#include "text/chat_output/call_reader.h"

namespace dunlin::text {

inline constexpr std::string_view kGemmaQuote = "<|\"|>";

std::unique_ptr<CallReader> MakeGemmaCall();

// Whether the reader takes `name` as a bare key.
bool IsGemmaKey(std::string_view name);

}  // namespace dunlin::text
