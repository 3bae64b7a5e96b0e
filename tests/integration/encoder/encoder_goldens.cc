// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/encoder/encoder_goldens.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {

std::vector<std::string> GoldenEncoderNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/golden/encoders"))) {
    if (std::filesystem::exists(entry.path() / "goldens.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> GoldenClassifierNames() {
  std::vector<std::string> names = GoldenEncoderNames();
  std::erase_if(names, [](const std::string& name) { return ReadEncoderGoldens(name).pairs.empty(); });
  return names;
}

std::string GoldenEncoderPath(const std::string& name) {
  return SourcePath("tests/golden/encoders/" + name);
}

EncoderGoldens ReadEncoderGoldens(const std::string& name) {
  std::ifstream file(GoldenEncoderPath(name) + "/goldens.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  EncoderGoldens goldens;
  for (const nlohmann::json& item : json.at("inputs")) {
    GoldenInput& input = goldens.inputs.emplace_back();
    item.at("tokens").get_to(input.tokens);
    item.at("positions").get_to(input.positions);
    item.at("rows").get_to(input.rows);
    item.at("mean").get_to(input.mean);
    item.at("cls").get_to(input.cls);
    item.at("last").get_to(input.last);
    item.at("mean_normalized").get_to(input.mean_normalized);
  }
  for (const nlohmann::json& item : json.at("texts")) {
    goldens.texts.push_back({item.at("text").get<std::string>(), item.at("token_ids").get<std::vector<TokenId>>()});
  }
  if (!json.contains("pairs")) return goldens;
  for (const nlohmann::json& item : json.at("pairs")) {
    GoldenPair& pair = goldens.pairs.emplace_back();
    item.at("query").get_to(pair.query);
    item.at("document").get_to(pair.document);
    item.at("token_ids").get_to(pair.token_ids);
    item.at("type_ids").get_to(pair.type_ids);
    item.at("logits").get_to(pair.logits);
  }
  return goldens;
}

}  // namespace dunlin::engine
