// SPDX-License-Identifier: Apache-2.0
// dunlin_input_scales.json: round trips are exact, it is read beside a model, and bad files are refused.
#include "engine/model/weights/input_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/load/load_model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

ModelConfig TwoLayers() {
  ModelConfig config;
  config.num_layers = 2;
  return config;
}

const InputScales kInputScales = {{{WeightSlot::kQkv, 0}, 0.1F},
                                  {{WeightSlot::kQkv, 1}, 1e-30F},
                                  {{WeightSlot::kMlpDown, 0}, 3.4e38F},
                                  {{WeightSlot::kMlpDown, 1}, 1.0F / 3.0F},
                                  {{WeightSlot::kHead, 0}, 7.25F}};

TEST(InputScalesFile, ReadsWhatItWrites) {
  const absl::StatusOr<InputScales> read = ParseInputScales(InputScalesText(kInputScales), TwoLayers());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, kInputScales);
}

TEST(InputScalesFile, LoadsWithTheModel) {
  const TempDirectory temp;
  WriteModel(temp, kLlamaConfig, LlamaTensors());
  temp.Write(kInputScalesFile, InputScalesText(kInputScales));
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const ModelSource source{.path = temp.path(), .random_shape = "", .precisions = {Precision::kFp8}};
  const auto model = LoadModel(source, device.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->input_scales(), kInputScales);
  temp.Write(kInputScalesFile, "{}");
  EXPECT_THAT(std::string(LoadModel(source, device.get()).status().message()), HasSubstr(kInputScalesFile));
}

TEST(InputScalesFile, BadFilesAreRefusedByFieldAndValue) {
  const auto file = [](const std::string& scales) {
    return R"({"format": "dunlin_input_scales", "version": 1, "scales": )" + scales + "}";
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "dunlin_input_scales.json"},
      {"{}", "format is ''; must be dunlin_input_scales"},
      {R"({"format": "dunlin_input_scales", "version": 2})", "version is 2; limit is [1, 1]"},
      {file("{}"), "scales is missing"},
      {file(R"({"qkv": [1.0]})"), "scales.qkv must be a list of 2 numbers"},
      {file(R"({"head": 1.0})"), "scales.head must be a list of 1 numbers"},
      {file(R"({"qkv": [1.0, 0]})"), "scales.qkv[1] is 0; a scale is finite and above 0"},
      {file(R"({"qkv": [1.0, -2.5]})"), "scales.qkv[1] is -2.5"},
      {file(R"({"qkv": ["x", 1.0]})"), "scales.qkv[0] is \"x\""},
      {file(R"({"qkv": [1e60, 1.0]})"), "scales.qkv[0] is 1e+60"},
      {file(R"({"kqv": [1.0, 1.0]})"), "unknown field"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = ParseInputScales(text, TwoLayers()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace dunlin::engine
