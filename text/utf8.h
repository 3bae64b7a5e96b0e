// SPDX-License-Identifier: Apache-2.0
// UTF-8 validation, for text that no parser has validated. Pure.
// Source: The Unicode Standard 15, table 3-7 (no overlong forms, no surrogates, <= U+10FFFF).

#pragma once

#include <string_view>

namespace dunlin::text {

// The empty text is valid, and NUL is an ordinary character. Linear in the size.
bool IsValidUtf8(std::string_view text);

}  // namespace dunlin::text
