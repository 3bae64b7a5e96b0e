// SPDX-License-Identifier: Apache-2.0
// The image encoder of Qwen 3.5: every field with its limit, the names and places of the weights, and which models are
// served without their images.
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
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kQwenEye = R"({"model_type": "qwen3_5_vision", "depth": 1, "hidden_size": 16,
    "intermediate_size": 10, "num_heads": 2, "patch_size": 2, "temporal_patch_size": 2, "spatial_merge_size": 2,
    "num_position_embeddings": 9, "out_hidden_size": 6, "deepstack_visual_indexes": []})";
constexpr const char* kQwenText = R"({"model_type": "qwen3_5_text", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 9,
    "max_position_embeddings": 32, "layer_types": ["full_attention"], "rope_parameters": {"rope_type": "default",
    "rope_theta": 1e6, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1], "mrope_interleaved": true}})";
constexpr const char* kPlainText = R"({"model_type": "qwen3_vl_text", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 9,
    "max_position_embeddings": 32})";

std::string WithEye(const std::string& vision = kQwenEye, const char* outer = "qwen3_5", const char* text = kQwenText) {
  return absl::StrCat(R"({"model_type": ")", outer, R"(", "vision_config": )", vision, R"(, "text_config": )", text,
                      "}");
}

std::vector<TestTensor> EyeTensors(const std::string& prefix) {
  const std::string tower = prefix + "visual.";
  const std::string block = tower + "blocks.0.";
  return {{tower + "patch_embed.proj.weight", {16, 3, 2, 2, 2}},
          {tower + "patch_embed.proj.bias", {16}},
          {tower + "pos_embed.weight", {9, 16}},
          {block + "norm1.weight", {16}},
          {block + "norm1.bias", {16}},
          {block + "norm2.weight", {16}},
          {block + "norm2.bias", {16}},
          {block + "attn.qkv.weight", {48, 16}},
          {block + "attn.qkv.bias", {48}},
          {block + "attn.proj.weight", {16, 16}},
          {block + "attn.proj.bias", {16}},
          {block + "mlp.linear_fc1.weight", {10, 16}},
          {block + "mlp.linear_fc1.bias", {10}},
          {block + "mlp.linear_fc2.weight", {16, 10}},
          {block + "mlp.linear_fc2.bias", {16}},
          {tower + "merger.norm.weight", {16}},
          {tower + "merger.norm.bias", {16}},
          {tower + "merger.linear_fc1.weight", {64, 64}},
          {tower + "merger.linear_fc1.bias", {64}},
          {tower + "merger.linear_fc2.weight", {6, 64}},
          {tower + "merger.linear_fc2.bias", {6}}};
}

class QwenVision : public ModelLoading {
 protected:
  absl::StatusOr<std::unique_ptr<Model>> LoadEye(const std::vector<TestTensor>& tensors) {
    WriteModel(temp_, WithEye(), tensors);
    return LoadModel({.path = temp_.path(),
                      .random_shape = "",
                      .precisions = {Precision::kFp32, Precision::kBf16},
                      .part = ModelPart::kImageEncoder},
                     device_.get());
  }
};

TEST_F(QwenVision, IsDescribedByItsConfig) {
  const auto parsed = ParseImageEncoderConfig(WithEye());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_TRUE(parsed->has_value());
  const ModelConfig& config = (*parsed)->config;
  EXPECT_TRUE(config.is_encoder() && config.is_image_encoder());
  EXPECT_EQ(config.architecture, "qwen_vision");
  EXPECT_EQ(config.max_context, 65536);
  EXPECT_EQ(config.image.patch_features(), 12);
  EXPECT_EQ(config.image.patch_inputs(), 24) << "two frames";
  EXPECT_EQ(config.image.position_side, 3);
  EXPECT_FALSE(config.image.merge_matrix);
  EXPECT_EQ(config.image.projector_dim, 64);
  EXPECT_EQ(config.image.out_dim, 6);
  EXPECT_EQ(config.image.activation, kernels::ActivationKind::kGeluErf);
  EXPECT_EQ(config.mlp.activation, kernels::ActivationKind::kGeluTanh);
  EXPECT_FALSE(config.mlp.gated || config.attention.causal);
  EXPECT_EQ(config.norm.kind, kernels::NormKind::kLayerNorm);
  EXPECT_FLOAT_EQ(config.norm.epsilon, 1e-6F);
  EXPECT_FLOAT_EQ(config.image.norm_epsilon, 1e-6F);
  EXPECT_EQ(config.image.num_row_frequencies, 2);
  EXPECT_THAT(config.rotary.inv_freq, ElementsAre(1.0F, FloatEq(1e-2F), 1.0F, FloatEq(1e-2F)));
}

// As the released models of 27 layers have them.
TEST_F(QwenVision, HasTransformersDefaults) {
  const std::string text = WithField(kQwenText, "hidden_size", "3584");
  const auto parsed = ParseImageEncoderConfig(WithEye("{}", "qwen3_5", text.c_str()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = (*parsed)->config;
  EXPECT_EQ(config.num_layers, 27);
  EXPECT_EQ(config.hidden_dim, 1152);
  EXPECT_EQ(config.attention.head_dim, 72);
  EXPECT_EQ(config.mlp.ffn_dim, 4304);
  EXPECT_EQ(config.image.patch_inputs(), 1536);
  EXPECT_EQ(config.image.position_side, 48);
  EXPECT_EQ(config.image.projector_dim, 4608);
}

TEST_F(QwenVision, EachBadFieldIsNamedWithValueAndLimit) {
  struct BadEye {
    const char* field;
    const char* value;
    const char* message;
  };
  constexpr BadEye kBad[] = {
      {"model_type", "\"siglip\"", "model_type is 'siglip'; known: qwen3_5, qwen3_5_vision, "},
      {"depth", "0", "depth is 0; limit is [1, 1024]"},
      {"hidden_size", "0", "hidden_size is 0; limit is [1, 131072]"},
      {"hidden_size", "15", "hidden size is 15, which 2 heads do not divide"},
      {"hidden_size", "12", "hidden_size / num_heads is 6; positions by row and column need a multiple of 4"},
      {"intermediate_size", "1048577", "intermediate_size is 1048577; limit is [1, 1048576]"},
      {"num_heads", "0", "num_heads is 0; limit is [1, 1024]"},
      {"hidden_act", "\"relu6\"", "hidden_act is 'relu6'; known"},
      {"in_channels", "1", "in_channels is 1; limit is [3, 3]"},
      {"patch_size", "65", "patch_size is 65; limit is [1, 64]"},
      {"patch_size", "[2, 2]", "patch_size is [2,2]; must be an integer"},
      {"temporal_patch_size", "0", "temporal_patch_size is 0; limit is [1, 16]"},
      {"temporal_patch_size", "17", "temporal_patch_size is 17; limit is [1, 16]"},
      {"spatial_merge_size", "17", "spatial_merge_size is 17; limit is [1, 16]"},
      {"num_position_embeddings", "0", "num_position_embeddings is 0; limit is [1, 1048576]"},
      {"num_position_embeddings", "8", "num_position_embeddings is 8; must be a square"},
      {"out_hidden_size", "7", "out_hidden_size is 7; must be the text model's hidden_size, 6"},
      {"rope_parameters", R"({"rope_type": "default"})", "rope_parameters: rope_type is 'default'; known: axial"},
      {"rope_parameters", R"({"rope_theta": 1})", "rope_parameters: rope_theta is 1; limit is"},
      {"deepstack_visual_indexes", "[1024]", "deepstack_visual_indexes is 1024; limit is [0, 1023]"},
  };
  for (const BadEye& bad : kBad) {
    const std::string config = WithEye(WithField(kQwenEye, bad.field, bad.value));
    const auto parsed = ParseImageEncoderConfig(config);
    ASSERT_FALSE(parsed.ok()) << config;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(bad.message));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("config.json: vision_config: "));
  }
}

TEST_F(QwenVision, WithDeepstackIsServedWithoutImages) {
  const std::string absent = WithField(kQwenEye, "deepstack_visual_indexes", "");
  EXPECT_TRUE(ParseImageEncoderConfig(WithEye(absent))->has_value());
  EXPECT_TRUE(ParseImageEncoderConfig(WithEye(kQwenEye, "qwen3_vl", kPlainText))->has_value());
  const std::string three = WithField(kQwenEye, "deepstack_visual_indexes", "[8, 16, 24]");
  const std::pair<std::string, const char*> rows[] = {
      {WithEye(three), "deepstack_visual_indexes has 3 layers"},
      {WithEye(three, "qwen3_vl", kPlainText), "deepstack_visual_indexes has 3 layers"},
      {WithEye(absent, "qwen3_vl", kPlainText), "deepstack_visual_indexes is absent, which means three layers"}};
  for (const auto& [config, message] : rows) {
    const absl::Status status = ParseImageEncoderConfig(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(status.message()),
              absl::StrCat("config.json: vision_config: ", message,
                           ", whose rows the decoder's layers would add: this model is served without images"));
    EXPECT_TRUE(ParseModelConfig(config, "").ok()) << "its texts";
  }
}

TEST_F(QwenVision, WeightsAreFoundUnderBothPrefixes) {
  for (const std::string prefix : {"", "model."}) {
    std::vector<TestTensor> tensors = EyeTensors(prefix);
    tensors.push_back({"model.language_model.norm.weight", {6}});  // the text model's
    const auto model = LoadEye(tensors);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->warnings(), IsEmpty());
    const PrecisionWeights& weights = (*model)->weights(Precision::kFp32);
    const std::string tower = prefix + "visual.";
    // Row 3 of the convolution: channel 2, frame 1, y 1, x 0.
    EXPECT_EQ(ElementOf(weights.patch_embedding.weight, 3, 22),
              ValueOf(tower + "patch_embed.proj.weight", 3 * 24 + 22));
    EXPECT_EQ(weights.patch_embedding.bias[5], ValueOf(tower + "patch_embed.proj.bias", 5));
    for (int i = 0; i < 9 * 16; ++i) ASSERT_EQ(weights.patch_positions[i], ValueOf(tower + "pos_embed.weight", i));
    EXPECT_EQ((*model)->weights(Precision::kBf16).patch_positions, weights.patch_positions) << "shared, in FP32";
    EXPECT_EQ(ElementOf(weights.layers[0].qkv.weight, 17, 2), ValueOf(tower + "blocks.0.attn.qkv.weight", 17 * 16 + 2));
    EXPECT_EQ(weights.layers[0].mlp_up.bias[9], ValueOf(tower + "blocks.0.mlp.linear_fc1.bias", 9));
    EXPECT_EQ(weights.projector.norm.bias[7], ValueOf(tower + "merger.norm.bias", 7));
    EXPECT_EQ(ElementOf(weights.projector.up.weight, 40, 3), ValueOf(tower + "merger.linear_fc1.weight", 40 * 64 + 3));
    EXPECT_EQ(ElementOf(weights.projector.down.weight, 5, 63),
              ValueOf(tower + "merger.linear_fc2.weight", 5 * 64 + 63));
    EXPECT_EQ(weights.projector.merge.weight.data, nullptr);
    EXPECT_EQ((*model)->num_parameters(),
              16 * 24 + 16 + 144 + 4 * 16 + 48 * 17 + 16 * 17 + 10 * 17 + 16 * 11 + 32 + 64 * 65 + 6 * 65);
  }
}

TEST_F(QwenVision, MissingAndWrongTensorsAreRefused) {
  std::vector<TestTensor> tensors = EyeTensors("");
  tensors[0].shape = {16, 3, 1, 4, 2};
  EXPECT_THAT(std::string(LoadEye(tensors).status().message()),
              HasSubstr("tensor 'visual.patch_embed.proj.weight' has shape [16, 3, 1, 4, 2]; config.json makes it "
                        "[16, 24]"));
  tensors = EyeTensors("");
  tensors[2].shape = {8, 16};
  EXPECT_THAT(std::string(LoadEye(tensors).status().message()),
              HasSubstr("tensor 'visual.pos_embed.weight' has shape"));
  tensors.erase(tensors.begin() + 2);
  const absl::Status missing = LoadEye(tensors).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("lacks 1 tensor(s): visual.pos_embed.weight"));
}

}  // namespace
}  // namespace dunlin::engine
