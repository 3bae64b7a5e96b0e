// SPDX-License-Identifier: Apache-2.0
// What a config.json of Gemma 4 makes of its layers: heads and rotations of two kinds, shared keys and values,
// inputs of each layer, experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/load/inspect.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/weights/weight_parts.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

TEST(Gemma4, HasHeadsAndRotationsOfTwoKinds) {
  const std::string base =
      R"({"model_type": "gemma4_text", "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 6, "vocab_size": 7,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "global_head_dim": 16,
          "num_global_key_value_heads": 1, "attention_k_eq_v": true, "sliding_window": 20,
          "hidden_size_per_layer_input": 0, "max_position_embeddings": 64})";
  const ModelConfig config = ParsedConfig(base);
  EXPECT_EQ(config.attention.heads(0), (HeadShape{4, 2, 4}));
  EXPECT_EQ(config.attention.heads(5), (HeadShape{4, 1, 16}));
  EXPECT_EQ(config.attention.head_dim, 16) << "the widest";
  EXPECT_EQ(config.attention.qkv_features(0), (4 + 2 * 2) * 4);
  EXPECT_EQ(config.attention.qkv_features(), (4 + 2 * 1) * 16);
  EXPECT_FALSE(config.attention.has_keys_as_values(4));
  EXPECT_TRUE(config.attention.has_keys_as_values(5));
  EXPECT_THAT(config.attention.layer_windows, ::testing::ElementsAre(20, 20, 20, 20, 20, 0));
  EXPECT_THAT(config.rotary.layer_index, ::testing::ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(config.rotary.dims, ::testing::ElementsAre(16, 4));
  EXPECT_EQ(config.rotary.dims_before(1), 16);
  ASSERT_EQ(config.rotary.inv_freq.size(), 8U + 2U);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[1], static_cast<float>(std::pow(1e6, -2.0 / 16))) << "by the whole head";
  EXPECT_EQ(config.rotary.inv_freq[2], 0.0F) << "a quarter rotates";
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[9], 0.01F);
  EXPECT_EQ(config.attention.scale, 1.0F);
  EXPECT_TRUE(config.attention.value_norm && config.layer_factor && config.head.tied);
  EXPECT_EQ(config.norm.weight_offset, 0.0F);
  const std::string by_layer =
      WithField(base, "per_layer_config", R"({"5": {"head_dim": 16, "num_key_value_heads": 1}})");
  EXPECT_EQ(ParsedConfig(WithField(by_layer, "global_head_dim", "")).attention.layer_heads,
            config.attention.layer_heads);
  const ModelConfig plain = ParsedConfig(WithField(base, "attention_k_eq_v", "false"));
  EXPECT_EQ(plain.attention.heads(5), (HeadShape{4, 2, 16})) << "other heads only where keys are values";
  const ModelConfig sliding = ParsedConfig(
      WithField(base, "layer_types",
                R"(["full_attention", "sliding_attention", "full_attention", "full_attention", "full_attention",
          "sliding_attention"])"));
  EXPECT_EQ(sliding.attention.window(5), 0) << "the last layer sees every token";
  const ModelConfig unified = ParsedConfig(R"({"model_type": "gemma4_unified", "text_config": )" +
                                           WithField(base, "model_type", "\"gemma4_unified_text\"") + "}");
  EXPECT_EQ(unified.attention.layer_heads, config.attention.layer_heads);
}

constexpr const char* kSmall =
    R"({"model_type": "gemma4_text", "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 6, "vocab_size": 7,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "global_head_dim": 16, "sliding_window": 20,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                        "sliding_attention", "full_attention"],
        "max_position_embeddings": 64, "num_kv_shared_layers": 3, "hidden_size_per_layer_input": 4,
        "vocab_size_per_layer_input": 9})";

TEST(Gemma4, LastLayersReadKeysAndValuesOfTheLastOneOfTheirTypeBefore) {
  const ModelConfig config = ParsedConfig(kSmall);
  EXPECT_THAT(config.attention.kv_sources, ::testing::ElementsAre(0, 1, 2, 1, 2, 1));
  EXPECT_EQ(config.mlp.ffn_dim, 6);
  const ModelConfig wide = ParsedConfig(WithField(kSmall, "use_double_wide_mlp", "true"));
  EXPECT_THAT(wide.mlp.layer_dims, ::testing::ElementsAre(6, 6, 6, 12, 12, 12));
  EXPECT_EQ(wide.mlp.ffn_dim, 12) << "the most";
  EXPECT_TRUE(ParsedConfig(WithField(kSmall, "num_kv_shared_layers", "0")).attention.kv_sources.empty());
}

TEST(Gemma4, HasInputsOfEachLayer) {
  const ModelConfig config = ParsedConfig(kSmall);
  EXPECT_EQ(config.layer_inputs.width, 4);
  EXPECT_EQ(config.layer_inputs.vocab_size, 9);
  EXPECT_EQ(config.layer_inputs.scale, 2.0F);
  EXPECT_EQ(config.layer_input_features(), 24);
  EXPECT_FALSE(ParsedConfig(WithField(kSmall, "hidden_size_per_layer_input", "0")).has_layer_inputs());
}

TEST(Gemma4, ExpertsStandNextToTheMlp) {
  std::string config = WithField(WithField(kSmall, "enable_moe_block", "true"), "num_experts", "6");
  config = WithField(WithField(config, "top_k_experts", "2"), "moe_intermediate_size", "5");
  const ExpertSpec experts = ParsedConfig(config).experts;
  EXPECT_EQ(experts.routing.num_experts, 6);
  EXPECT_EQ(experts.routing.num_chosen, 2);
  EXPECT_TRUE(experts.routing.normalized && experts.beside_mlp && experts.in_layer(0));
  EXPECT_EQ(experts.ffn_dim, 5);
}

// A tensor for each part of the model.
std::vector<TestTensor> TensorsOf(const ParsedModel& parsed) {
  std::vector<TestTensor> tensors;
  for (const WeightPart& part : ListWeightParts(parsed.names, parsed.config, "model.")) {
    const auto same = [&part](const TestTensor& tensor) { return tensor.name == part.tensor; };
    if (std::none_of(tensors.begin(), tensors.end(), same)) tensors.push_back({part.tensor, part.shape});
  }
  return tensors;
}

TEST(Gemma4, KeysAndValuesOfLayersThatReadThoseOfOthersAreSkipped) {
  const auto parsed = ParseModelConfig(kSmall, "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<TestTensor> tensors = TensorsOf(*parsed);
  tensors.push_back({"model.layers.3.self_attn.k_proj.weight", {32, 8}});
  tensors.push_back({"model.layers.3.self_attn.k_norm.weight", {16}});
  tensors.push_back({"model.layers.3.self_attn.k_scale_of_another", {1}});
  const TempDirectory temp;
  WriteModel(temp, kSmall, tensors);
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const auto summary = InspectModel({.path = temp.path(), .random_shape = "", .precisions = {}}, *device->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->skipped.size(), 1U);
  EXPECT_EQ(summary->skipped[0].prefix, "model.layers.");
  EXPECT_EQ(summary->skipped[0].part, "keys and values of layers that read those of others");
  EXPECT_EQ(summary->skipped[0].count, 2);
  EXPECT_THAT(summary->warnings, ::testing::ElementsAre(::testing::HasSubstr("1 tensor(s) of the checkpoint are not")));
  EXPECT_EQ(summary->num_parameters - summary->num_active_parameters, 9 * 6 * 4) << "the table of per-layer embeddings";
}

TEST(Gemma4, ExpertsAreStackedOrHaveAMatrixEach) {
  std::string config = WithField(WithField(kSmall, "enable_moe_block", "true"), "num_experts", "3");
  config = WithField(WithField(config, "top_k_experts", "2"), "moe_intermediate_size", "5");
  auto parsed = ParseModelConfig(config, "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const std::vector<TestTensor> apart = TensorsOf(*parsed);
  parsed->names.weights = parsed->names.stacked;
  std::vector<TestTensor> stacked;
  for (const TestTensor& tensor : TensorsOf(*parsed)) {
    if (tensor.name.find(".experts.") == std::string::npos) stacked.push_back(tensor);
  }
  for (int layer = 0; layer < 6; ++layer) {
    const std::string experts = "model.layers." + std::to_string(layer) + ".experts.";
    stacked.push_back({experts + "gate_up_proj", {3, 10, 8}});
    stacked.push_back({experts + "down_proj", {3, 8, 5}});
  }
  int64_t parameters[2] = {};
  for (const bool stacks : {false, true}) {
    const TempDirectory temp;
    WriteModel(temp, config, stacks ? stacked : apart);
    PlainDeviceState state;
    const auto device = MakePlainDevice(&state);
    const auto summary = InspectModel({.path = temp.path(), .random_shape = "", .precisions = {}}, *device->ops);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_THAT(summary->warnings, ::testing::IsEmpty());
    parameters[stacks ? 1 : 0] = summary->num_parameters;
  }
  EXPECT_EQ(parameters[0], parameters[1]);
}

}  // namespace
}  // namespace dunlin::engine
