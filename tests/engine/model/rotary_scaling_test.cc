// SPDX-License-Identifier: Apache-2.0
// Inverse frequencies against transformers': rope_goldens.json, written by make_rope_goldens.py.
#include "engine/model/architectures/rotary_scaling.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/model/load/model_directory.h"

namespace dunlin::engine {
namespace {

// Units in the last place of FP32. All but one of the goldens' values are equal bit for bit; torch's vectorised pow is
// not correctly rounded.
constexpr int64_t kTolerance = 1;

int64_t UnitsApart(float a, float b) {
  return std::abs(int64_t{std::bit_cast<int32_t>(a)} - int64_t{std::bit_cast<int32_t>(b)});
}

TEST(RotaryScaling, MatchesTransformers) {
  std::ifstream stream(DUNLIN_SOURCE_DIR "/tests/engine/model/rope_goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(stream);
  ASSERT_GE(goldens.size(), 20U);
  for (const nlohmann::json& golden : goldens) {
    const std::string name = golden["name"];
    const absl::StatusOr<ParsedModel> model = ParseModelConfig(golden["config"].dump(), "");
    ASSERT_TRUE(model.ok()) << name << ": " << model.status();
    const std::vector<float>& actual = model->config.rotary.inv_freq;
    const auto expected = golden["inv_freq"].get<std::vector<float>>();
    ASSERT_EQ(actual.size(), expected.size()) << name;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(UnitsApart(actual[i], expected[i]), kTolerance) << name << " [" << i << "] " << actual[i];
    }
    EXPECT_FLOAT_EQ(model->config.rotary.attention_factor(0), golden["attention_factor"].get<float>()) << name;
  }
}

}  // namespace
}  // namespace dunlin::engine
