// SPDX-License-Identifier: Apache-2.0
// What inputs are held against where the tokenizer is not what is fuzzed: the byte-level one of tests/golden/text.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace dunlin::fuzz {

// Loaded at the first call.
const text::Tokenizer& GoldenTokenizer();

// The text of a file of the tree; the process ends if there is none.
std::string ReadTreeFile(const std::string& path);

}  // namespace dunlin::fuzz
