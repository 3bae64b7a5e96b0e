// SPDX-License-Identifier: Apache-2.0
// Writes JSON into a string without a tree: what responses and their events consist of. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/request/types.h"

namespace dunlin::server {

// What is written takes its place after the first comma: `{` AppendJson... `}`.

// "text", quoted and escaped. text: UTF-8.
void AppendJsonString(std::string_view text, std::string* out);
// The same without the quotes.
void AppendJsonEscaped(std::string_view text, std::string* out);
// Bytes that need not be UTF-8 as a string: every byte that is not becomes U+FFFD.
std::string Utf8OrReplaced(std::string_view bytes);

// The shortest decimal number that reads back as the same value; not finite: -9999, OpenAI's stand-in for -infinity.
void AppendJsonNumber(float value, std::string* out);
void AppendJsonNumber(double value, std::string* out);

// [0.5,-1], each as AppendJsonNumber writes it.
void AppendJsonNumbers(std::span<const float> values, std::string* out);

// [1,2,3]
void AppendJsonIds(std::span<const engine::TokenId> ids, std::string* out);
// The bytes as numbers: [226,128]
void AppendJsonBytes(std::string_view bytes, std::string* out);

// `"name":` and the value. name: needs no escape.
void AppendJsonMember(std::string_view name, std::string_view text, std::string* out);

}  // namespace dunlin::server
