// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/golden_tokenizer.h"

#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz_targets.h"

namespace dunlin::fuzz {

std::string ReadTreeFile(const std::string& path) {
  std::ifstream stream(std::string(DUNLIN_SOURCE_DIR) + "/" + path, std::ios::binary);
  DUNLIN_FUZZ_CHECK(stream.good(), path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

const text::Tokenizer& GoldenTokenizer() {
  static const std::unique_ptr<text::Tokenizer> tokenizer = [] {
    auto loaded =
        text::Tokenizer::Load(std::string(DUNLIN_SOURCE_DIR) + "/tests/golden/text/byte_level_gpt2", /*vocab_limit=*/0);
    DUNLIN_FUZZ_CHECK(loaded.ok(), loaded.status().ToString());
    return *std::move(loaded);
  }();
  return *tokenizer;
}

}  // namespace dunlin::fuzz
