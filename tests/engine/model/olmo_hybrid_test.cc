// SPDX-License-Identifier: Apache-2.0
// OLMo Hybrid: norms by the kind of a layer, delta nets of five projections, and layers without positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kHybridHidden = 8;
constexpr const char* kHybrid =
    R"({"model_type": "olmo_hybrid", "hidden_size": 8, "intermediate_size": 10, "num_hidden_layers": 2, "vocab_size": 9,
        "num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": {"rope_theta": null},
        "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1, "linear_num_value_heads": 2,
        "linear_key_head_dim": 3, "linear_value_head_dim": 5})";

// norms: the names that a delta net's two norms have.
std::vector<TestTensor> HybridTensors(const char* first_norm, const char* second_norm) {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kHybridHidden}},
                                     {"model.norm.weight", {kHybridHidden}},
                                     {"lm_head.weight", {9, kHybridHidden}}};
  const std::string delta = "model.layers.0.linear_attn.";
  for (const auto& [part, rows] :
       {std::pair("q", int64_t{3}), std::pair("k", int64_t{3}), std::pair("v", int64_t{10})}) {
    tensors.push_back({absl::StrCat(delta, part, "_proj.weight"), {rows, kHybridHidden}});
    tensors.push_back({absl::StrCat(delta, part, "_conv1d.weight"), {rows, 1, 4}});
  }
  tensors.insert(tensors.end(), {{delta + "g_proj.weight", {10, kHybridHidden}},
                                 {delta + "a_proj.weight", {2, kHybridHidden}},
                                 {delta + "b_proj.weight", {2, kHybridHidden}},
                                 {delta + "A_log", {2}},
                                 {delta + "dt_bias", {2}},
                                 {delta + "o_norm.weight", {5}},
                                 {delta + "o_proj.weight", {kHybridHidden, 10}},
                                 {absl::StrCat("model.layers.0.", first_norm, ".weight"), {kHybridHidden}},
                                 {absl::StrCat("model.layers.0.", second_norm, ".weight"), {kHybridHidden}},
                                 {"model.layers.1.self_attn.q_proj.weight", {8, kHybridHidden}},
                                 {"model.layers.1.self_attn.k_proj.weight", {4, kHybridHidden}},
                                 {"model.layers.1.self_attn.v_proj.weight", {4, kHybridHidden}},
                                 {"model.layers.1.self_attn.o_proj.weight", {kHybridHidden, 8}},
                                 {"model.layers.1.self_attn.q_norm.weight", {8}},
                                 {"model.layers.1.self_attn.k_norm.weight", {4}},
                                 {"model.layers.1.post_attention_layernorm.weight", {kHybridHidden}},
                                 {"model.layers.1.post_feedforward_layernorm.weight", {kHybridHidden}}});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string mlp = absl::StrCat("model.layers.", layer, ".mlp.");
    tensors.insert(tensors.end(), {{mlp + "gate_proj.weight", {10, kHybridHidden}},
                                   {mlp + "up_proj.weight", {10, kHybridHidden}},
                                   {mlp + "down_proj.weight", {kHybridHidden, 10}}});
  }
  return tensors;
}

class OlmoHybrid : public ModelLoading {};

TEST_F(OlmoHybrid, LayersHaveTheNormsOfTheirKind) {
  const ModelConfig config = ParsedConfig(kHybrid);
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kDelta, MixerKind::kAttention));
  EXPECT_EQ(config.norm.placement_of(0), NormPlacement::kPre);
  EXPECT_EQ(config.norm.placement_of(1), NormPlacement::kPostInside);
  EXPECT_FALSE(config.norm.has_post(0));
  EXPECT_TRUE(config.norm.has_post(1));
  EXPECT_TRUE(config.attention.qk_norm_joint);
  EXPECT_TRUE(config.delta.signed_states);
  EXPECT_EQ(config.delta.norm_epsilon, 1e-5F);
  EXPECT_EQ(config.rotary.dim, 0);
  EXPECT_EQ(config.norm.epsilon, 1e-6F);
  // As some of the published configs have it.
  EXPECT_EQ(ParsedConfig(WithField(kHybrid, "rope_parameters", "null")).rotary.dim, 0);
}

TEST_F(OlmoHybrid, WhatIsNotGivenIsTransformersDefault) {
  const ModelConfig config = ParsedConfig(
      R"({"model_type": "olmo_hybrid", "hidden_size": 16, "num_hidden_layers": 4, "vocab_size": 9,
          "num_attention_heads": 2, "linear_allow_neg_eigval": false})");
  EXPECT_THAT(config.mixers,
              ElementsAre(MixerKind::kDelta, MixerKind::kDelta, MixerKind::kDelta, MixerKind::kAttention));
  EXPECT_EQ(config.delta.shape.key_heads, 2);
  EXPECT_EQ(config.delta.shape.value_heads, 2);
  EXPECT_EQ(config.delta.shape.key_dim, 6);
  EXPECT_EQ(config.delta.shape.value_dim, 12);
  EXPECT_FALSE(config.delta.signed_states);
  EXPECT_EQ(config.rotary.dim, 8);  // at transformers' base
  EXPECT_EQ(config.mlp.ffn_dim, 11008);
  EXPECT_EQ(config.max_context, 65536);
}

TEST_F(OlmoHybrid, TensorsHaveThePublishedNamesOrTransformers) {
  for (const auto& [first, second] : {std::pair("attention_layer_norm", "feedforward_layer_norm"),
                                      std::pair("input_layernorm", "post_attention_layernorm")}) {
    const auto model = Load(kHybrid, HybridTensors(first, second));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->warnings(), IsEmpty());
    const std::vector<LayerWeights>& layers = (*model)->weights(Precision::kFp32).layers;
    EXPECT_EQ(layers[0].attention_norm.weight[2], ValueOf(absl::StrCat("model.layers.0.", first, ".weight"), 2));
    EXPECT_EQ(layers[0].mlp_norm.weight[2], ValueOf(absl::StrCat("model.layers.0.", second, ".weight"), 2));
    EXPECT_EQ(layers[0].post_attention_norm.weight, nullptr);
    EXPECT_EQ(layers[1].attention_norm.weight, nullptr);
    EXPECT_EQ(layers[1].post_attention_norm.weight[3], ValueOf("model.layers.1.post_attention_layernorm.weight", 3));
    EXPECT_EQ(layers[1].post_mlp_norm.weight[3], ValueOf("model.layers.1.post_feedforward_layernorm.weight", 3));
    const DeltaWeights& delta = layers[0].delta;
    const std::string stem = "model.layers.0.linear_attn.";
    ASSERT_EQ(delta.in.weight.out_features, 26);
    EXPECT_EQ(ElementOf(delta.in.weight, 4, 1), ValueOf(stem + "k_proj.weight", kHybridHidden + 1));
    EXPECT_EQ(ElementOf(delta.in.weight, 17, 1), ValueOf(stem + "g_proj.weight", kHybridHidden + 1));
    EXPECT_EQ(ElementOf(delta.gates.weight, 1, 2), ValueOf(stem + "b_proj.weight", kHybridHidden + 2));
    EXPECT_EQ(ElementOf(delta.gates.weight, 2, 2), ValueOf(stem + "a_proj.weight", 2));
    EXPECT_EQ(delta.conv[3 * 16 + 7], ValueOf(stem + "v_conv1d.weight", 4 * 1 + 3));
  }
}

TEST_F(OlmoHybrid, WhatIsNotServedIsRefusedByName) {
  const auto message = [](const char* name, const char* value) {
    return std::string(ParseModelConfig(WithField(kHybrid, name, value), "").status().message());
  };
  EXPECT_THAT(message("hidden_act", R"("gelu")"), HasSubstr("hidden_act is 'gelu'; known: silu"));
  EXPECT_THAT(message("layer_types", R"(["linear_attention", "linear_attention"])"),
              HasSubstr("no layer has full attention"));
  EXPECT_THAT(message("layer_types", R"(["linear_attention", "sliding_attention"])"),
              HasSubstr("layer_types[1] is 'sliding_attention'"));
  EXPECT_THAT(message("linear_num_value_heads", "0"), HasSubstr("linear_num_value_heads is 0"));
}

}  // namespace
}  // namespace dunlin::engine
