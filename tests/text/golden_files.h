// SPDX-License-Identifier: Apache-2.0
// The goldens of tests/golden/text: three tokenizers and what Hugging Face `tokenizers` does with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace dunlin::text {

struct EncodeCase {
  std::string text;
  EncodeOptions options;
  std::vector<engine::TokenId> ids;
};

struct DecodeCase {
  std::vector<engine::TokenId> ids;
  bool skip_special;
  std::string text;
};

struct Golden {
  std::string style;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<EncodeCase> encode;
  std::vector<DecodeCase> decode;
};

std::string GoldenFolder(const std::string& style);

// Read once for the whole program; a missing or broken file ends it with a message.
const std::vector<Golden>& Goldens();

}  // namespace dunlin::text
