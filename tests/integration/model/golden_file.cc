// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/golden_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "nlohmann/json.hpp"

namespace dunlin::engine {

float LargestError(const std::vector<float>& logits, const std::vector<float>& golden) {
  float worst = logits.size() == golden.size() ? 0.0F : INFINITY;
  for (size_t i = 0; i < std::min(logits.size(), golden.size()); ++i) {
    const float error = std::abs(logits[i] - golden[i]);
    if (!(error <= worst)) worst = error;  // NaN too
  }
  return worst;
}

std::vector<GoldenPrompt> ReadGoldens(const std::string& model_path) {
  std::ifstream file(model_path + "/goldens.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  std::vector<GoldenPrompt> prompts;
  for (const nlohmann::json& item : json.at("prompts")) {
    GoldenPrompt& prompt = prompts.emplace_back();
    item.at("tokens").get_to(prompt.tokens);
    item.at("greedy_tokens").get_to(prompt.greedy_tokens);
    item.at("greedy_gaps").get_to(prompt.greedy_gaps);
    for (const nlohmann::json& logits : item.at("logits")) {
      prompt.logits.push_back({logits.at("position").get<int32_t>(), logits.at("values").get<std::vector<float>>()});
    }
  }
  return prompts;
}

}  // namespace dunlin::engine
