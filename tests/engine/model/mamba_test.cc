// SPDX-License-Identifier: Apache-2.0
// Models with Mamba2 layers: their configs, and which tensors become which matrices and vectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/spec/attention_shape.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMambaHidden = 6;
constexpr int64_t kMambaHeads = 4;
constexpr int64_t kMambaFeatures = 12;  // 4 heads of 3
constexpr int64_t kMambaChannels = kMambaFeatures + 2 * 2 * 5;
constexpr int64_t kMambaRows = kMambaFeatures + kMambaChannels + kMambaHeads;

constexpr const char* kGraniteH =
    R"({"model_type": "granitemoehybrid", "hidden_size": 6, "intermediate_size": 4, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 9, "mamba_n_heads": 4,
        "mamba_n_groups": 2, "mamba_d_state": 5, "mamba_d_conv": 3, "num_local_experts": 0,
        "shared_intermediate_size": 7, "layer_types": ["mamba", "attention"]})";

constexpr const char* kNemotronH =
    R"({"model_type": "nemotron_h", "hidden_size": 6, "vocab_size": 9, "head_dim": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1, "mamba_num_heads": 4, "mamba_head_dim": 3, "n_groups": 2, "ssm_state_size": 5,
        "conv_kernel": 3, "intermediate_size": 10, "hybrid_override_pattern": "M*E-", "n_routed_experts": 4,
        "moe_intermediate_size": 8, "moe_shared_expert_intermediate_size": 3, "moe_latent_size": 5})";

std::vector<TestTensor> MambaTensors(const std::string& prefix) {
  return {{prefix + "in_proj.weight", {kMambaRows, kMambaHidden}},
          {prefix + "conv1d.weight", {kMambaChannels, 1, 3}},
          {prefix + "conv1d.bias", {kMambaChannels}},
          {prefix + "A_log", {kMambaHeads}},
          {prefix + "dt_bias", {kMambaHeads}},
          {prefix + "D", {kMambaHeads}},
          {prefix + "norm.weight", {kMambaFeatures}},
          {prefix + "out_proj.weight", {kMambaHidden, kMambaFeatures}}};
}

void AddAttention(const std::string& prefix, std::vector<TestTensor>* tensors) {
  constexpr int64_t kAttentionHeadDim = 4;
  tensors->push_back({prefix + "q_proj.weight", {2 * kAttentionHeadDim, kMambaHidden}});
  tensors->push_back({prefix + "k_proj.weight", {kAttentionHeadDim, kMambaHidden}});
  tensors->push_back({prefix + "v_proj.weight", {kAttentionHeadDim, kMambaHidden}});
  tensors->push_back({prefix + "o_proj.weight", {kMambaHidden, 2 * kAttentionHeadDim}});
}

class MambaModels : public ModelLoading {
 protected:
  static void ExpectElement(const LinearWeights& linear, int64_t row, const std::string& tensor, float factor = 1.0F) {
    EXPECT_EQ(ElementOf(linear.weight, row, 1),
              factor * ValueOf(tensor, static_cast<size_t>(row * linear.weight.in_features + 1)))
        << tensor << " row " << row;
  }
};

TEST_F(MambaModels, GranitesWeightsAreAsTheDeviceTakesThem) {
  const std::string mamba = "model.layers.0.mamba.";
  std::vector<TestTensor> tensors = MambaTensors(mamba);
  AddAttention("model.layers.1.self_attn.", &tensors);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    tensors.push_back({absl::StrCat(layer, "input_layernorm.weight"), {kMambaHidden}});
    tensors.push_back({absl::StrCat(layer, "post_attention_layernorm.weight"), {kMambaHidden}});
    tensors.push_back({absl::StrCat(layer, "shared_mlp.input_linear.weight"), {14, kMambaHidden}});
    tensors.push_back({absl::StrCat(layer, "shared_mlp.output_linear.weight"), {kMambaHidden, 7}});
  }
  tensors.insert(tensors.end(), {{"model.embed_tokens.weight", {9, kMambaHidden}},
                                 {"model.norm.weight", {kMambaHidden}},
                                 {"lm_head.weight", {9, kMambaHidden}}});
  const auto model = Load(WithField(kGraniteH, "residual_multiplier", "0.5"), tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[0];
  EXPECT_EQ(layer.mamba.in.weight.out_features, kMambaRows);
  ExpectElement(layer.mamba.in, 0, mamba + "in_proj.weight");
  ExpectElement(layer.mamba.in, kMambaRows - 1, mamba + "in_proj.weight");
  ExpectElement(layer.mamba.out, 2, mamba + "out_proj.weight", 0.5F);
  for (int64_t tap = 0; tap < 3; ++tap) {
    for (int64_t channel = 0; channel < kMambaChannels; ++channel) {
      ASSERT_EQ(layer.mamba.conv[tap * kMambaChannels + channel],
                ValueOf(mamba + "conv1d.weight", static_cast<size_t>(channel * 3 + tap)));
    }
  }
  EXPECT_EQ(layer.mamba.conv_bias[7], ValueOf(mamba + "conv1d.bias", 7));
  for (size_t head = 0; head < kMambaHeads; ++head) {
    EXPECT_EQ(layer.mamba.rate[head], std::exp(ValueOf(mamba + "A_log", head)));
    EXPECT_EQ(layer.mamba.time_bias[head], ValueOf(mamba + "dt_bias", head));
    EXPECT_EQ(layer.mamba.skip[head], ValueOf(mamba + "D", head));
  }
  EXPECT_EQ(layer.mamba.norm[11], ValueOf(mamba + "norm.weight", 11));
  ExpectElement(layer.mlp_up, 13, "model.layers.0.shared_mlp.input_linear.weight");
  EXPECT_EQ(layer.qkv.weight.data, nullptr);
}

TEST_F(MambaModels, ANemotronLayerHasTheWeightsOfItsOneTerm) {
  const std::string layers = "backbone.layers.";
  std::vector<TestTensor> tensors = MambaTensors(layers + "0.mixer.");
  AddAttention(layers + "1.mixer.", &tensors);
  const std::string experts = layers + "2.mixer.";
  tensors.insert(tensors.end(), {{experts + "gate.weight", {4, kMambaHidden}},
                                 {experts + "gate.e_score_correction_bias", {4}},
                                 {experts + "fc1_latent_proj.weight", {5, kMambaHidden}},
                                 {experts + "fc2_latent_proj.weight", {kMambaHidden, 5}},
                                 {experts + "shared_experts.up_proj.weight", {3, kMambaHidden}},
                                 {experts + "shared_experts.down_proj.weight", {kMambaHidden, 3}},
                                 {layers + "3.mixer.up_proj.weight", {10, kMambaHidden}},
                                 {layers + "3.mixer.down_proj.weight", {kMambaHidden, 10}},
                                 {"backbone.embeddings.weight", {9, kMambaHidden}},
                                 {"backbone.norm_f.weight", {kMambaHidden}},
                                 {"lm_head.weight", {9, kMambaHidden}}});
  for (int i = 0; i < 4; ++i) {
    tensors.push_back({absl::StrCat(layers, i, ".norm.weight"), {kMambaHidden}});
    tensors.push_back({absl::StrCat(experts, "experts.", i, ".up_proj.weight"), {8, 5}});
    tensors.push_back({absl::StrCat(experts, "experts.", i, ".down_proj.weight"), {5, 8}});
  }
  const auto model = Load(kNemotronH, tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const ModelConfig& config = (*model)->config();
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kMamba, MixerKind::kAttention, MixerKind::kNone, MixerKind::kNone));
  EXPECT_EQ(config.num_kv_layers(), 1);
  EXPECT_EQ(config.num_recurrent_layers(), 1);
  const std::vector<LayerWeights>& weights = (*model)->weights(Precision::kFp32).layers;
  EXPECT_NE(weights[0].attention_norm.weight, nullptr);
  EXPECT_EQ(weights[0].mlp_norm.weight, nullptr);
  EXPECT_EQ(weights[0].mlp_up.weight.data, nullptr);
  EXPECT_NE(weights[1].qkv.weight.data, nullptr);
  EXPECT_EQ(weights[2].attention_norm.weight, nullptr);
  EXPECT_NE(weights[2].mlp_norm.weight, nullptr);
  ExpectElement(weights[2].latent_in, 4, experts + "fc1_latent_proj.weight");
  ExpectElement(weights[2].experts[3].down, 4, experts + "experts.3.down_proj.weight");
  ExpectElement(weights[2].shared_expert.up, 2, experts + "shared_experts.up_proj.weight");
  ExpectElement(weights[3].mlp_down, 5, layers + "3.mixer.down_proj.weight");
}

TEST_F(MambaModels, ConfigsOfBothVersionsOfTransformersAreRead) {
  const auto old = ParseModelConfig(WithField(kGraniteH, "time_step_limit", "[0.001, Infinity]"), "");
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->config.mamba.step_min, 0.001F);
  EXPECT_EQ(old->config.mamba.step_max, std::numeric_limits<float>::infinity());
  EXPECT_EQ(old->config.rotary.dim, 0);
  EXPECT_EQ(old->config.mlp.ffn_dim, 7);
  EXPECT_FALSE(old->config.has_experts());
  std::string text = WithField(kGraniteH, "time_step_limit", R"([0.0, {"__float__": "Infinity"}])");
  text = WithField(text, "layer_types", R"(["full_attention", "linear_attention"])");
  text = WithField(WithField(text, "position_embedding_type", R"("rope")"), "mamba_d_head", R"("auto")");
  const auto current = ParseModelConfig(text, "");
  ASSERT_TRUE(current.ok()) << current.status();
  EXPECT_THAT(current->config.mixers, ElementsAre(MixerKind::kAttention, MixerKind::kMamba));
  EXPECT_EQ(current->config.rotary.dim, 4);
  const auto listed =
      ParseModelConfig(WithField(kNemotronH, "layers_block_type", R"(["mamba", "mlp", "attention"])"), "");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->config.num_layers, 3);
  EXPECT_FALSE(listed->config.has_experts());
}

constexpr const char* kMamba2Alone =
    R"({"model_type": "mamba2", "hidden_size": 6, "vocab_size": 9, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 3,
        "n_groups": 2, "state_size": 5, "conv_kernel": 3})";

TEST_F(MambaModels, WithoutAttentionPagesHoldNothing) {
  const auto parsed = ParseModelConfig(kMamba2Alone, "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kMamba, MixerKind::kMamba));
  EXPECT_TRUE(config.single_terms);
  EXPECT_EQ(config.num_kv_layers(), 0);
  EXPECT_EQ(config.state_floats(), 2 * config.mamba.state_floats());
  EXPECT_EQ(config.max_context, 262144);
  EXPECT_EQ(KvGroupsOf(config).count(), 1);
  EXPECT_EQ(KvLayoutOf(config, Precision::kBf16).page_bytes, 4096U);
  EXPECT_TRUE(AttentionTraitsOf(config, kernels::DType::kBF16).empty());
}

const BadField kRefused[] = {
    {kGraniteH, "layer_types", R"(["mamba", "mlp"])",
     "layer_types[1] is 'mlp'; known: mamba, linear_attention, attention, full_attention"},
    {kGraniteH, "layer_types", R"(["mamba", "mamba"])", "no layer has attention"},
    {kGraniteH, "layer_types", R"(["mamba"])", "layer_types has 1 entries; num_hidden_layers is 2"},
    {kGraniteH, "mamba_d_head", "5", "mamba_d_head is 5 of 4 heads; they must have 12 elements"},
    {kGraniteH, "mamba_n_groups", "3", "mamba_n_groups is 3, which does not divide 4 heads"},
    {kGraniteH, "mamba_d_conv", "9", "mamba_d_conv is 9; limit is [2, 8]"},
    {kGraniteH, "hidden_act", R"("gelu")", "hidden_act is 'gelu'; known: silu"},
    {kGraniteH, "time_step_limit", "[0.5, 0.1]", "must be two numbers, 0 <= lower <= upper"},
    {kGraniteH, "position_embedding_type", R"("alibi")", "position_embedding_type is 'alibi'; known: nope, rope"},
    {kNemotronH, "hybrid_override_pattern", "null", "hybrid_override_pattern is missing, and so is layers_block_type"},
    {kNemotronH, "hybrid_override_pattern", R"("M*x")", "hybrid_override_pattern[2] is 'x'; known: M, *, - and E"},
    {kNemotronH, "num_hidden_layers", "3", "hybrid_override_pattern has 4 letters"},
    {kMamba2Alone, "head_dim", "5", "head_dim is 5 of 4 heads; they must have 12 elements (expand * hidden_size)"},
    {kMamba2Alone, "n_groups", "3", "n_groups is 3, which does not divide 4 heads"},
    {kMamba2Alone, "hidden_act", R"("gelu")", "hidden_act is 'gelu'; known: silu"},
    {kNemotronH, "attention_bias", "true", "attention_bias is true"},
    {kNemotronH, "sliding_window", "64", "sliding_window is set"},
    {kNemotronH, "mlp_bias", "true", "mlp_bias is true in a model with experts"},
    {kNemotronH, "n_shared_experts", "2", "n_shared_experts is 2; limit is [1, 1]"},
    {kNemotronH, "mamba_hidden_act", R"("gelu")", "mamba_hidden_act is 'gelu'"},
};

TEST_F(MambaModels, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
