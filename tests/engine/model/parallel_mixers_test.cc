// SPDX-License-Identifier: Apache-2.0
// Bamba and Falcon-H1: their configs, and the factors that Falcon-H1's weights take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/spec/attention_shape.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kH1Hidden = 6;
constexpr int64_t kH1Features = 12;                              // 4 heads of 3
constexpr int64_t kH1Group = 2 * 5;                              // B or C of 2 groups
constexpr int64_t kH1Rows = 2 * kH1Features + 2 * kH1Group + 4;  // z, x, B, C, steps

constexpr const char* kFalconH1 =
    R"({"model_type": "falcon_h1", "hidden_size": 6, "intermediate_size": 4, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 9, "mamba_d_ssm": 12,
        "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 5, "mamba_d_conv": 3,
        "attention_in_multiplier": 2.0, "key_multiplier": 0.25, "attention_out_multiplier": 4.0,
        "ssm_in_multiplier": 0.5, "ssm_multipliers": [2.0, 4.0, 8.0, 16.0, 32.0], "ssm_out_multiplier": 8.0,
        "mlp_multipliers": [16.0, 0.125], "embedding_multiplier": 3.0, "lm_head_multiplier": 0.75})";

constexpr const char* kBamba =
    R"({"model_type": "bamba", "hidden_size": 6, "intermediate_size": 4, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 9, "mamba_n_heads": 4,
        "mamba_d_state": 5, "attn_layer_indices": [1]})";

std::vector<TestTensor> FalconTensors() {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kH1Hidden}},
                                     {"model.final_layernorm.weight", {kH1Hidden}},
                                     {"lm_head.weight", {9, kH1Hidden}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string mamba = layer + "mamba.";
    const std::string attention = layer + "self_attn.";
    tensors.insert(tensors.end(), {{mamba + "in_proj.weight", {kH1Rows, kH1Hidden}},
                                   {mamba + "conv1d.weight", {kH1Features + 2 * kH1Group, 1, 3}},
                                   {mamba + "conv1d.bias", {kH1Features + 2 * kH1Group}},
                                   {mamba + "A_log", {4}},
                                   {mamba + "dt_bias", {4}},
                                   {mamba + "D", {4}},
                                   {mamba + "out_proj.weight", {kH1Hidden, kH1Features}},
                                   {attention + "q_proj.weight", {8, kH1Hidden}},
                                   {attention + "k_proj.weight", {4, kH1Hidden}},
                                   {attention + "v_proj.weight", {4, kH1Hidden}},
                                   {attention + "o_proj.weight", {kH1Hidden, 8}},
                                   {layer + "input_layernorm.weight", {kH1Hidden}},
                                   {layer + "pre_ff_layernorm.weight", {kH1Hidden}},
                                   {layer + "feed_forward.gate_proj.weight", {4, kH1Hidden}},
                                   {layer + "feed_forward.up_proj.weight", {4, kH1Hidden}},
                                   {layer + "feed_forward.down_proj.weight", {kH1Hidden, 4}}});
  }
  return tensors;
}

class ParallelMixers : public ModelLoading {
 protected:
  // Row `row` of a matrix is row `source` of the tensor times the factor.
  static void ExpectRow(const LinearWeights& linear, int64_t row, const std::string& tensor, int64_t source,
                        float factor) {
    const float stored = ValueOf(tensor, source * linear.weight.in_features + 1);
    EXPECT_EQ(ElementOf(linear.weight, row, 1), factor * stored) << tensor << " row " << source;
  }
};

TEST_F(ParallelMixers, EachProductHasItsFactor) {
  const auto model = Load(kFalconH1, FalconTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[1];
  const std::string mamba = "model.layers.1.mamba.";
  const float blocks[] = {1.0F, 2.0F, 4.0F, 8.0F, 16.0F};  // each times ssm_in_multiplier
  const int64_t sizes[] = {kH1Features, kH1Features, kH1Group, kH1Group, 4};
  int64_t row = 0;
  for (size_t i = 0; i < 5; ++i) {
    ExpectRow(layer.mamba.in, row, mamba + "in_proj.weight", row, blocks[i]);
    row += sizes[i];
    ExpectRow(layer.mamba.in, row - 1, mamba + "in_proj.weight", row - 1, blocks[i]);
  }
  EXPECT_EQ(layer.mamba.in.weight.out_features, row);
  EXPECT_EQ(layer.mamba.norm, nullptr);
  ExpectRow(layer.mamba.out, 5, mamba + "out_proj.weight", 5, 8.0F);
  const std::string attention = "model.layers.1.self_attn.";
  ExpectRow(layer.qkv, 7, attention + "q_proj.weight", 7, 2.0F);
  ExpectRow(layer.qkv, 8, attention + "k_proj.weight", 0, 0.5F);
  ExpectRow(layer.qkv, 12, attention + "v_proj.weight", 0, 2.0F);
  ExpectRow(layer.attention_out, 3, attention + "o_proj.weight", 3, 4.0F);
  ExpectRow(layer.mlp_up, 3, "model.layers.1.feed_forward.gate_proj.weight", 3, 16.0F);
  ExpectRow(layer.mlp_up, 4, "model.layers.1.feed_forward.up_proj.weight", 0, 1.0F);
  ExpectRow(layer.mlp_down, 2, "model.layers.1.feed_forward.down_proj.weight", 2, 0.125F);
  EXPECT_EQ((*model)->config().embedding.scale, 3.0F);
  EXPECT_EQ((*model)->config().head.scale, 0.75F);
}

TEST_F(ParallelMixers, EveryLayerHasPagesAndAState) {
  const auto parsed = ParseModelConfig(kFalconH1, "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_THAT(config.mixers, Each(MixerKind::kParallel));
  EXPECT_EQ(config.num_kv_layers(), 2);
  EXPECT_EQ(config.num_recurrent_layers(), 2);
  EXPECT_EQ(config.state_floats(), 2 * config.mamba.state_floats());
  EXPECT_EQ(config.max_mixer_inputs(), config.attention.qkv_features() + config.mamba.input_features());
  EXPECT_EQ(config.mamba.norm, MambaNorm::kNone);
  const auto norm_of = [](const std::string& text) { return ParseModelConfig(text, "")->config.mamba.norm; };
  const std::string normed = WithField(kFalconH1, "mamba_rms_norm", "true");
  EXPECT_EQ(norm_of(normed), MambaNorm::kBeforeGate);
  EXPECT_EQ(norm_of(WithField(normed, "mamba_norm_before_gate", "false")), MambaNorm::kAfterGate);
  // null: mamba_expand * hidden_size.
  EXPECT_EQ(ParseModelConfig(WithField(kFalconH1, "mamba_d_ssm", "null"), "")->config.mamba.shape.head_dim, 3);
}

TEST_F(ParallelMixers, BambasAttentionRotatesHalfAHeadOfTheListedLayers) {
  const auto parsed = ParseModelConfig(kBamba, "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kMamba, MixerKind::kAttention, MixerKind::kMamba));
  EXPECT_EQ(config.rotary.dim, 2);
  EXPECT_EQ(config.mamba.norm, MambaNorm::kAfterGate);
  EXPECT_EQ(config.mlp.ffn_dim, 4);
}

const BadField kRefusedH1[] = {
    {kFalconH1, "attention_bias", "true", "attention_bias is true, which is not supported"},
    {kFalconH1, "mlp_bias", "true", "mlp_bias is true"},
    {kFalconH1, "projectors_bias", "true", "projectors_bias is true"},
    {kFalconH1, "mamba_proj_bias", "true", "mamba_proj_bias is true"},
    {kFalconH1, "mamba_d_ssm", "13", "mamba_d_head is 3 of 4 heads; they must have 13 elements (mamba_d_ssm)"},
    {kFalconH1, "ssm_multipliers", "[1.0, 2.0]", "ssm_multipliers has 2 numbers; must have 5"},
    {kFalconH1, "mlp_multipliers", "[1.0]", "mlp_multipliers has 1 numbers; must have 2"},
    {kFalconH1, "key_multiplier", "0", "key_multiplier is 0; limit is [1e-06, 1e+06]"},
    {kFalconH1, "hidden_act", R"("gelu")", "hidden_act is 'gelu'; known: silu"},
    {kBamba, "attn_layer_indices", "[3]", "attn_layer_indices is 3; limit is [0, 2]"},
    {kBamba, "attn_layer_indices", "null", "no layer has attention, of which a model needs one"},
};

TEST_F(ParallelMixers, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kRefusedH1) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
