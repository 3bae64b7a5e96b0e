// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/named_shapes.h"

#include <gtest/gtest.h>

#include "engine/model/load/model_directory.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {
namespace {

TEST(NamedShapes, HaveThePublishedNumbersOfParameters) {
  const struct {
    const char* name;
    int64_t parameters;
    int32_t layers;
  } cases[] = {{"gpt2-124m", 124'439'808, 12},         {"gpt2-xl", 1'557'611'200, 48},
               {"llama-1b", 1'235'814'400, 16},        {"llama-8b", 8'030'261'248, 32},
               {"qwen3-0.6b", 596'049'920, 28},        {"mistral-7b", 7'241'732'096, 32},
               {"qwen3-30b-a3b-8l", 5'607'297'024, 8}, {"deepseek-v2-lite-4l", 2'254'983'168, 4}};
  ASSERT_EQ(NamedShapes().size(), std::size(cases));
  for (const auto& c : cases) {
    const NamedShape* shape = FindNamedShape(c.name);
    ASSERT_NE(shape, nullptr) << c.name;
    const absl::StatusOr<ParsedModel> model = ParseModelConfig(shape->config_json, "");
    ASSERT_TRUE(model.ok()) << c.name << ": " << model.status();
    EXPECT_EQ(model->config.num_layers, c.layers);
    EXPECT_TRUE(model->warnings.empty());
    EXPECT_EQ(CountParameters(ListWeightParts(model->names, model->config, "")), c.parameters) << c.name;
  }
  EXPECT_EQ(FindNamedShape("gpt3"), nullptr);
}

}  // namespace
}  // namespace dunlin::engine
