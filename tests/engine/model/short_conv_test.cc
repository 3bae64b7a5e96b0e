// SPDX-License-Identifier: Apache-2.0
// Hybrids of gated short convolutions and attention: their configs, and which rows of a checkpoint become which
// matrices and vectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kConvHidden = 6;
constexpr int64_t kConvTaps = 4;
constexpr int64_t kConvFfn = 8;

// Of three layers the second attends: 3 heads of 2 on one.
std::string ConvConfig(const std::string& more = "", const std::string& model_type = "lfm2") {
  return absl::StrCat(R"({"model_type": ")", model_type, R"(", "hidden_size": 6, "intermediate_size": 12,
      "num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 1, "vocab_size": 9, "conv_L_cache": 4,
      "block_multiple_of": 4, "full_attn_idxs": [1])",
                      more, "}");
}

absl::StatusOr<ParsedModel> ParseConv(const std::string& more, const std::string& model_type = "lfm2") {
  return ParseModelConfig(ConvConfig(more, model_type), "");
}

std::vector<TestTensor> ConvTensors(bool biased) {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kConvHidden}},
                                     {"model.embedding_norm.weight", {kConvHidden}},
                                     {"model.layers.1.self_attn.q_proj.weight", {6, kConvHidden}},
                                     {"model.layers.1.self_attn.k_proj.weight", {2, kConvHidden}},
                                     {"model.layers.1.self_attn.v_proj.weight", {2, kConvHidden}},
                                     {"model.layers.1.self_attn.q_layernorm.weight", {2}},
                                     {"model.layers.1.self_attn.k_layernorm.weight", {2}},
                                     {"model.layers.1.self_attn.out_proj.weight", {kConvHidden, 6}}};
  for (const char* layer : {"model.layers.0.conv.", "model.layers.2.conv."}) {
    tensors.push_back({absl::StrCat(layer, "in_proj.weight"), {3 * kConvHidden, kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "conv.weight"), {kConvHidden, 1, kConvTaps}});
    tensors.push_back({absl::StrCat(layer, "out_proj.weight"), {kConvHidden, kConvHidden}});
    if (!biased) continue;
    tensors.push_back({absl::StrCat(layer, "in_proj.bias"), {3 * kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "conv.bias"), {kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "out_proj.bias"), {kConvHidden}});
  }
  for (const char* layer : {"model.layers.0.", "model.layers.1.", "model.layers.2."}) {
    tensors.push_back({absl::StrCat(layer, "operator_norm.weight"), {kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "ffn_norm.weight"), {kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "feed_forward.w1.weight"), {kConvFfn, kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "feed_forward.w3.weight"), {kConvFfn, kConvHidden}});
    tensors.push_back({absl::StrCat(layer, "feed_forward.w2.weight"), {kConvHidden, kConvFfn}});
  }
  return tensors;
}

using ShortConvModel = ModelLoading;

TEST_F(ShortConvModel, ProjectionsTapsAndBiasesAreAsTheDeviceTakesThem) {
  const auto model = Load(ConvConfig(R"(, "conv_bias": true)"), ConvTensors(true));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[2];
  const std::string conv = "model.layers.2.conv.";
  EXPECT_EQ(ElementOf(layer.short_conv.in.weight, 13, 2),
            ValueOf(conv + "in_proj.weight", 13 * static_cast<size_t>(kConvHidden) + 2));
  EXPECT_EQ(ElementOf(layer.short_conv.out.weight, 5, 1),
            ValueOf(conv + "out_proj.weight", 5 * static_cast<size_t>(kConvHidden) + 1));
  for (int64_t tap = 0; tap < kConvTaps; ++tap) {
    for (int64_t channel = 0; channel < kConvHidden; ++channel) {
      ASSERT_EQ(layer.short_conv.conv[tap * kConvHidden + channel],
                ValueOf(conv + "conv.weight", static_cast<size_t>(channel * kConvTaps + tap)));
    }
  }
  EXPECT_EQ(layer.short_conv.bias[3], ValueOf(conv + "conv.bias", 3));
  EXPECT_EQ(layer.short_conv.in.bias[17], ValueOf(conv + "in_proj.bias", 17));
  EXPECT_EQ(layer.short_conv.out.bias[4], ValueOf(conv + "out_proj.bias", 4));
  EXPECT_EQ(layer.qkv.weight.data, nullptr);
  EXPECT_EQ((*model)->weights(Precision::kFp32).final_norm.weight[1], ValueOf("model.embedding_norm.weight", 1));
}

TEST_F(ShortConvModel, WithoutBiasesThereIsNone) {
  const auto model = Load(ConvConfig(), ConvTensors(false));
  ASSERT_TRUE(model.ok()) << model.status();
  const ShortConvWeights& conv = (*model)->weights(Precision::kFp32).layers[0].short_conv;
  EXPECT_EQ(conv.bias, nullptr);
  EXPECT_EQ(conv.in.bias, nullptr);
}

TEST_F(ShortConvModel, AConvolutionOfOtherTapsIsRefused) {
  std::vector<TestTensor> tensors = ConvTensors(false);
  for (TestTensor& tensor : tensors) {
    if (tensor.name == "model.layers.0.conv.conv.weight") tensor.shape = {kConvHidden, 1, 3};
  }
  EXPECT_THAT(std::string(Load(ConvConfig(), tensors).status().message()),
              HasSubstr("conv.conv.weight' has shape [6, 1, 3]; config.json makes it [6, 1, 4]"));
}

TEST(ShortConvConfig, LayersThatAttendAreListedOrTyped) {
  const auto by_index = ParseConv("");
  ASSERT_TRUE(by_index.ok()) << by_index.status();
  EXPECT_THAT(by_index->config.mixers,
              ElementsAre(MixerKind::kShortConv, MixerKind::kAttention, MixerKind::kShortConv));
  EXPECT_EQ(by_index->config.state_floats(), int64_t{2} * 3 * kConvHidden);
  EXPECT_EQ(by_index->config.state_offset(2), 3 * kConvHidden);
  EXPECT_EQ(by_index->config.num_kv_layers(), 1);
  EXPECT_TRUE(by_index->config.head.tied);
  const auto by_type = ParseConv(R"(, "layer_types": ["full_attention", "conv", "full_attention"],
      "tie_embedding": false)");
  ASSERT_TRUE(by_type.ok()) << by_type.status();
  EXPECT_THAT(by_type->config.mixers, ElementsAre(MixerKind::kAttention, MixerKind::kShortConv, MixerKind::kAttention));
  EXPECT_FALSE(by_type->config.head.tied);
}

TEST(ShortConvConfig, TheWidthOfTheMlpIsAdjusted) {
  EXPECT_EQ(ParseConv("")->config.mlp.ffn_dim, 8);  // 2/3 of 12
  EXPECT_EQ(ParseConv(R"(, "block_ff_dim": 50)")->config.mlp.ffn_dim, 36) << "33, in multiples of 4";
  EXPECT_EQ(ParseConv(R"(, "block_ffn_dim_multiplier": 1.3)")->config.mlp.ffn_dim, 12) << "10";
  EXPECT_EQ(ParseConv(R"(, "block_ff_dim": 50, "block_ffn_dim_multiplier": null)")->config.mlp.ffn_dim, 33);
  EXPECT_EQ(ParseConv(R"(, "block_auto_adjust_ff_dim": false)")->config.mlp.ffn_dim, 12);
}

TEST(ShortConvConfig, ExpertsAreOfAllButTheFirstLayers) {
  const auto model = ParseConv(R"(, "num_dense_layers": 1, "num_experts": 4, "num_experts_per_tok": 2)", "lfm2_moe");
  ASSERT_TRUE(model.ok()) << model.status();
  const ExpertSpec& experts = model->config.experts;
  EXPECT_THAT(experts.dense_layers, ElementsAre(true, false, false));
  EXPECT_EQ(experts.routing.scoring, kernels::ExpertScoring::kSigmoid);
  EXPECT_EQ(experts.routing.sum_offset, 1e-6F);
  EXPECT_TRUE(experts.routing.normalized);
  EXPECT_TRUE(experts.router_correction);
  EXPECT_EQ(model->config.mlp.ffn_dim, 12) << "as it is";
  EXPECT_FALSE(ParseConv(R"(, "use_expert_bias": false)", "lfm2_moe")->config.experts.router_correction);
}

// Of five layers, as transformers places them: two convolutions, full attention, a convolution, a window.
std::string Lfm3Config(const std::string& more = "") {
  return absl::StrCat(R"({"model_type": "lfm3", "hidden_size": 6, "intermediate_size": 12, "num_hidden_layers": 5,
      "num_attention_heads": 3, "num_key_value_heads": 1, "vocab_size": 9, "head_dim": 8)",
                      more, "}");
}

TEST(ShortConvConfig, Lfm3HasWindowsAndAGateOfEachHead) {
  const auto model = ParseModelConfig(Lfm3Config(), "");
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelConfig& config = model->config;
  using enum MixerKind;
  EXPECT_THAT(config.mixers, ElementsAre(kShortConv, kShortConv, kAttention, kShortConv, kAttention));
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(0, 0, 0, 0, 256));
  EXPECT_EQ(config.short_conv.taps, 7);
  EXPECT_TRUE(config.attention.output_gate && config.attention.head_gate && config.attention.qk_norm);
  EXPECT_EQ(config.attention.gate_features(2), 3);
  EXPECT_EQ(config.norm.placement, NormPlacement::kPreAndPost);
  EXPECT_TRUE(config.head.tied);
  EXPECT_EQ(config.mlp.ffn_dim, 12) << "as it is";
  const auto plain =
      ParseModelConfig(Lfm3Config(R"(, "use_sandwich_norm": false, "use_attention_gate": false)"), "")->config;
  EXPECT_FALSE(plain.attention.output_gate);
  EXPECT_EQ(plain.norm.placement, NormPlacement::kPre);
}

// Of full layers half of the pairs, in proportion to the whole head; of sliding ones all, with another base.
TEST(ShortConvConfig, Lfm3RotatesFullLayersInPart) {
  const RotarySpec rotary = ParseModelConfig(Lfm3Config(), "")->config.rotary;
  EXPECT_EQ(rotary.dim, 8);
  EXPECT_THAT(rotary.layer_index, ElementsAre(0, 0, 0, 0, 1));
  ASSERT_EQ(rotary.inv_freq.size(), 8U);
  EXPECT_FLOAT_EQ(rotary.inv_freq[1], std::pow(1e6F, -0.25F));
  EXPECT_EQ(rotary.inv_freq[2], 0.0F);
  EXPECT_EQ(rotary.inv_freq[3], 0.0F);
  EXPECT_FLOAT_EQ(rotary.inv_freq[5], std::pow(1e4F, -0.25F));
  EXPECT_FLOAT_EQ(rotary.inv_freq[7], std::pow(1e4F, -0.75F));
}

TEST(ShortConvConfig, BadLayersOfLfm3AreNamed) {
  for (const auto& [more, message] : std::vector<std::pair<std::string, std::string>>{
           {R"(, "layer_types": ["conv"])", "layer_types has 1 entries; num_hidden_layers is 5"},
           {R"(, "layer_types": ["conv", "mamba", "conv", "conv", "conv"])",
            "layer_types[1] is 'mamba'; known: full_attention, sliding_attention, conv"},
           {R"(, "layer_types": ["conv", "conv", "conv", "conv", "conv"])", "no layer has attention"},
           {R"(, "sliding_window": 0)", "sliding_window is 0; limit is [1, "}}) {
    const auto model = ParseModelConfig(Lfm3Config(more), "");
    ASSERT_FALSE(model.ok()) << more;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(message));
  }
}

TEST(ShortConvConfig, TheTextPartOfAMultimodalConfigIsServed) {
  const auto model = ParseModelConfig(
      absl::StrCat(R"({"model_type": "lfm2_vl", "vision_config": {}, "text_config": )", ConvConfig(), "}"), "");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.num_recurrent_layers(), 2);
  const auto lfm3 = ParseModelConfig(
      absl::StrCat(R"({"model_type": "lfm3_vl", "vision_config": {}, "text_config": )", Lfm3Config(), "}"), "");
  ASSERT_TRUE(lfm3.ok()) << lfm3.status();
  EXPECT_EQ(lfm3->config.num_recurrent_layers(), 3);
}

TEST(ShortConvConfig, BadFieldsAreNamedWithValueAndLimit) {
  struct Row {
    const char* more;
    const char* message;
  };
  for (const Row& row : {
           Row{R"(, "layer_types": ["conv"])", "layer_types has 1 entries; num_hidden_layers is 3"},
           Row{R"(, "layer_types": ["conv", "mamba", "conv"])",
               "layer_types[1] is 'mamba'; known: full_attention, conv"},
           Row{R"(, "layer_types": ["conv", "conv", "conv"])", "no layer has full attention, of which a model needs"},
           Row{R"(, "block_ff_dim": 0)", "block_ff_dim is 0; limit is [1, "},
           Row{R"(, "block_ffn_dim_multiplier": 1000, "block_ff_dim": 1000000)",
               "block_auto_adjust_ff_dim makes the MLP 666666000 wide; limit is [1, "},
       }) {
    const auto model = ParseConv(row.more);
    ASSERT_FALSE(model.ok()) << row.more;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(row.message));
  }
  const std::string taps = R"({"model_type": "lfm2", "hidden_size": 6, "intermediate_size": 12, "num_hidden_layers": 3,
      "num_attention_heads": 3, "num_key_value_heads": 1, "vocab_size": 9, "conv_L_cache": 9})";
  EXPECT_THAT(std::string(ParseModelConfig(taps, "").status().message()),
              HasSubstr("conv_L_cache is 9; limit is [2, 8]"));
}

}  // namespace
}  // namespace dunlin::engine
