// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/golden_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "nlohmann/json.hpp"

namespace dunlin::engine {
namespace {

std::vector<GoldenLogits> ReadLogits(const nlohmann::json& rows) {
  std::vector<GoldenLogits> logits;
  for (const nlohmann::json& row : rows) {
    logits.push_back({row.at("position").get<int32_t>(), row.at("values").get<std::vector<float>>()});
  }
  return logits;
}

}  // namespace

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
    prompt.logits = ReadLogits(item.at("logits"));
    if (item.contains("states")) item.at("states").get_to(prompt.states);
    if (item.contains("own_logits")) prompt.own_logits = ReadLogits(item.at("own_logits"));
  }
  return prompts;
}

}  // namespace dunlin::engine
