// SPDX-License-Identifier: Apache-2.0
#include "tests/text/golden_files.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace dunlin::text {
namespace {

Golden ReadGolden(const std::string& style) {
  Golden golden{.style = style, .tokenizer = nullptr, .encode = {}, .decode = {}};
  auto tokenizer = Tokenizer::Load(GoldenFolder(style), 0);
  std::ifstream file(GoldenFolder(style) + "/cases.json");
  if (!tokenizer.ok() || !file) {
    std::fprintf(stderr, "golden %s: %s\n", style.c_str(), tokenizer.status().ToString().c_str());
    std::abort();
  }
  golden.tokenizer = *std::move(tokenizer);
  const nlohmann::json cases = nlohmann::json::parse(file);
  for (const auto& entry : cases["encode"]) {
    golden.encode.push_back(
        {.text = entry["text"],
         .options = {.add_special_tokens = entry["add_special_tokens"], .parse_special = entry["parse_special"]},
         .ids = entry["ids"]});
  }
  for (const auto& entry : cases["decode"]) {
    golden.decode.push_back({.ids = entry["ids"], .skip_special = entry["skip_special"], .text = entry["text"]});
  }
  return golden;
}

}  // namespace

std::string GoldenFolder(const std::string& style) {
  return DUNLIN_SOURCE_DIR "/tests/golden/text/" + style;
}

const std::vector<Golden>& Goldens() {
  static const std::vector<Golden>* goldens = [] {
    auto* read = new std::vector<Golden>;
    for (const char* style : {"byte_level_gpt2", "byte_level_llama3", "sentencepiece_llama2"}) {
      read->push_back(ReadGolden(style));
    }
    return read;
  }();
  return *goldens;
}

}  // namespace dunlin::text
