// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/corpus.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/golden_tokenizer.h"

namespace dunlin::fuzz {

std::string Unescaped(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') continue;
    if (text[i] != '\\' || i + 1 == text.size()) {
      bytes += text[i];
      continue;
    }
    const char escape = text[++i];
    if (escape == 'x' && i + 2 < text.size()) {
      bytes += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      bytes += escape == 'n' ? '\n' : escape == 't' ? '\t' : escape == 'r' ? '\r' : escape;
    }
  }
  return bytes;
}

std::vector<CorpusInput> CorpusFiles(std::string_view target) {
  const std::string folder = "tests/fuzz/corpus/" + std::string(target);
  std::vector<CorpusInput> inputs;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(DUNLIN_SOURCE_DIR) + "/" + folder, missing)) {
    const std::string name = entry.path().filename().string();
    std::string bytes = ReadTreeFile(folder + "/" + name);
    if (entry.path().extension() == ".esc") bytes = Unescaped(bytes);
    inputs.push_back({name, std::move(bytes)});
  }
  std::sort(inputs.begin(), inputs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return inputs;
}

std::vector<CorpusInput> CorpusOf(std::string_view target) {
  std::vector<CorpusInput> inputs = CorpusFiles(target);
  for (auto* more : {&GoldenSeeds, &MessageSeeds}) {
    std::vector<CorpusInput> seeds = more(target);
    inputs.insert(inputs.end(), std::make_move_iterator(seeds.begin()), std::make_move_iterator(seeds.end()));
  }
  return inputs;
}

}  // namespace dunlin::fuzz
