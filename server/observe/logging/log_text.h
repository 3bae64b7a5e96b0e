// SPDX-License-Identifier: Apache-2.0
// Text on its way into a log line, made such that it can neither end the line nor change how the rest of it is shown.
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dunlin::server {

// `text` with what is not to be seen escaped: control characters (C0, DEL, C1), bidirectional and other invisible
// format characters, and line and paragraph separators as \u202e; bytes that are not UTF-8 as \xff. Everything else
// stays.
std::string WithoutControls(std::string_view text);

// The same between quotes, with quotes and backslashes escaped, so that the field has one end only. Of a longer text,
// about the first `limit` bytes, in whole characters, and "...".
std::string LogQuoted(std::string_view text, size_t limit);

}  // namespace dunlin::server
