// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/fp8_golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {

std::vector<std::string> Fp8GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/golden/fp8"))) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Fp8GoldenPath(const std::string& name) {
  return SourcePath("tests/golden/fp8/" + name);
}

Fp8Golden ReadFp8Golden(const std::string& model_path) {
  std::ifstream file(model_path + "/goldens.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  Fp8Golden golden;
  json.at("tokens").get_to(golden.tokens);
  for (const auto& [recipe, rows] : json.at("logits").items()) {
    for (const nlohmann::json& row : rows) {
      golden.logits[recipe].push_back({row.at("position").get<int32_t>(), row.at("values").get<std::vector<float>>()});
    }
  }
  return golden;
}

}  // namespace dunlin::engine
