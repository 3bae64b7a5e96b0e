// UTF-8 validity, for text that did not come through a checked door. Pure functions.
// Source: The Unicode Standard 15, table 3-7 (no overlong forms, no surrogates, <= U+10FFFF).

#pragma once

#include <string_view>

namespace dunlin::engine {

// True for the empty text too; NUL is a character like any other. Linear in the size.
bool IsValidUtf8(std::string_view text);

}  // namespace dunlin::engine
