// SPDX-License-Identifier: Apache-2.0
// Multimodal checkpoints: the text_config of their config, the prefixes of the text model's weights, and what is told
// of the tensors that are not served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/inspect.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One layer, untied.
constexpr const char* kText = R"({"model_type": "mistral", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 9,
    "max_position_embeddings": 32, "sliding_window": null, "eos_token_id": 3})";

std::string Multimodal(const std::string& text = kText) {
  return absl::StrCat(R"({"model_type": "mistral3", "vision_config": {"model_type": "pixtral"}, "text_config": )", text,
                      "}");
}

absl::StatusOr<ParsedModel> Parse(const std::string& config) {
  return ParseModelConfig(config, "");
}

using TextPart = ModelLoading;

TEST_F(TextPart, IsFoundUnderEveryPrefix) {
  struct Names {
    const char* prefix;
    const char* head;
  };
  for (const Names& names :
       {Names{"model.language_model.", ""}, Names{"language_model.model.", "language_model."}, Names{"model.", ""}}) {
    const auto model = Load(Multimodal(), MistralTensors(names.prefix, names.head));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->warnings(), IsEmpty());
    EXPECT_TRUE((*model)->config().text_part);
    EXPECT_EQ((*model)->config().architecture, "mistral3");
    const PrecisionWeights& weights = (*model)->weights(Precision::kFp32);
    EXPECT_EQ(ElementOf(weights.head.weight, 1, 2), ValueOf(absl::StrCat(names.head, "lm_head.weight"), 8));
    EXPECT_EQ(ElementOf(weights.layers[0].mlp_down.weight, 1, 2),
              ValueOf(absl::StrCat(names.prefix, "layers.0.mlp.down_proj.weight"), 12));
  }
}

TEST_F(TextPart, TensorsOfOtherPartsAreCountedByPrefix) {
  std::vector<TestTensor> tensors = MistralTensors("language_model.model.", "language_model.");
  for (const char* name :
       {"vision_tower.patch_conv.weight", "vision_tower.ln_pre.weight", "model.visual.merger.weight",
        "multi_modal_projector.linear_1.weight", "mtp.fc.weight", "language_model.model.layers.1.eh_proj.weight",
        "language_model.model.layers.12.norm.weight", "language_model.model.layers.0.extra", "vision"}) {
    tensors.push_back({name, {1}});
  }
  WriteModel(temp_, Multimodal(), tensors);
  const auto summary = InspectModel({.path = temp_.path(), .random_shape = "", .precisions = {}}, *device_->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  std::vector<std::string> told;
  for (const SkippedTensors& row : summary->skipped) {
    told.push_back(absl::StrCat(row.part, " ", row.prefix, " ", row.count));
  }
  EXPECT_THAT(told,
              ElementsAre("multi-token prediction language_model.model.layers.1. 1",
                          "multi-token prediction language_model.model.layers.12. 1", "multi-token prediction mtp. 1",
                          "vision model.visual. 1", "vision multi_modal_projector. 1", "vision vision_tower. 2"));
  EXPECT_THAT(summary->warnings, ElementsAre("2 tensor(s) of the checkpoint are not used: "
                                             "language_model.model.layers.0.extra, vision",
                                             HasSubstr("its encoder of images is not served: ")));
  EXPECT_FALSE(summary->image_encoder.has_value());
}

TEST_F(TextPart, ATextModelHasNoVision) {
  std::vector<TestTensor> tensors = MistralTensors("model.", "");
  tensors.push_back({"visual.merger.weight", {1}});
  tensors.push_back({"model.mtp.fc.weight", {1}});
  WriteModel(temp_, kText, tensors);
  const auto summary = InspectModel({.path = temp_.path(), .random_shape = "", .precisions = {}}, *device_->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->skipped.size(), 1U);
  EXPECT_EQ(summary->skipped[0].prefix, "model.mtp.");
  EXPECT_THAT(summary->warnings, ElementsAre(HasSubstr("1 tensor(s) of the checkpoint are not used: visual.merger")));
}

// MiMo 7B: Qwen 2 and layers that predict further tokens.
TEST_F(TextPart, PredictingLayersOfMimoAreSkipped) {
  std::vector<TestTensor> tensors = MistralTensors("model.", "");
  for (const auto& [part, rows] : {std::pair("q", 16), std::pair("k", 8), std::pair("v", 8)}) {
    tensors.push_back({absl::StrCat("model.layers.0.self_attn.", part, "_proj.bias"), {rows}});
  }
  tensors.push_back({"model.mtp_layers.0.input_proj.weight", {1}});
  WriteModel(temp_, WithField(kText, "model_type", R"("mimo")"), tensors);
  const auto summary = InspectModel({.path = temp_.path(), .random_shape = "", .precisions = {}}, *device_->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->skipped.size(), 1U);
  EXPECT_EQ(summary->skipped[0].prefix, "model.mtp_layers.");
  EXPECT_THAT(summary->warnings, IsEmpty());
}

TEST(TextPartConfig, FieldsOfTheWholeComeFirst) {
  const auto inner = Parse(Multimodal());
  ASSERT_TRUE(inner.ok()) << inner.status();
  EXPECT_THAT(inner->config.eos_token_ids, ElementsAre(3));
  EXPECT_FALSE(inner->config.head.tied);
  const auto outer = Parse(WithField(WithField(Multimodal(), "eos_token_id", "[4, 5]"), "tie_word_embeddings", "true"));
  ASSERT_TRUE(outer.ok()) << outer.status();
  EXPECT_THAT(outer->config.eos_token_ids, ElementsAre(4, 5));
  EXPECT_TRUE(outer->config.head.tied);
}

TEST(TextPartConfig, MayStandInTheConfigItself) {
  const std::string text = WithField(WithField(kText, "model_type", "\"qwen2_5_vl\""), "rope_scaling",
                                     R"({"type": "mrope", "mrope_section": [1, 1, 0]})");
  const auto flat = Parse(text);
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_TRUE(flat->config.text_part && flat->config.attention.qkv_bias);
  EXPECT_EQ(flat->config.architecture, "qwen2_5_vl");
  EXPECT_THAT(flat->config.eos_token_ids, ElementsAre(3));
  const auto nested = Parse(absl::StrCat(R"({"model_type": "qwen2_5_vl", "text_config": )",
                                         WithField(kText, "model_type", "\"qwen2_5_vl_text\""), "}"));
  ASSERT_TRUE(nested.ok()) << nested.status();
  EXPECT_EQ(nested->config.rotary.inv_freq, flat->config.rotary.inv_freq);
  const auto glm = Parse(WithField(WithField(kText, "model_type", "\"glm4v\""), "rope_scaling",
                                   R"({"type": "default", "mrope_section": [1]})"));
  ASSERT_TRUE(glm.ok()) << glm.status();
  EXPECT_TRUE(glm->config.text_part && glm->config.rotary.interleaved);
}

// Of Gemma 3 4B as published.
TEST(TextPartConfig, MayLeaveOutWhatTransformersHasByDefault) {
  const auto parsed = Parse(R"({"model_type": "gemma3", "image_token_index": 262144, "text_config": {
      "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.attention.num_heads, 8);
  EXPECT_EQ(config.attention.num_kv_heads, 4);
  EXPECT_EQ(config.attention.head_dim, 256);
  EXPECT_EQ(config.max_context, 131072);
  EXPECT_TRUE(config.head.tied);
}

TEST(TextPartConfig, QuantizationStandsInEither) {
  const char* fp8 = R"({"quant_method": "fp8", "activation_scheme": "dynamic"})";
  const auto inner = Parse(Multimodal(WithField(kText, "quantization_config", fp8)));
  const auto outer = Parse(WithField(Multimodal(), "quantization_config", fp8));
  ASSERT_TRUE(inner.ok() && outer.ok()) << inner.status() << outer.status();
  EXPECT_NE(inner->quantization.format, nullptr);
  EXPECT_EQ(inner->quantization.format, outer->quantization.format);
}

TEST(TextPartConfig, ErrorsNameTheObject) {
  const auto expect_refused = [](const std::string& config, const std::string& message) {
    const absl::Status status = Parse(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect_refused(Multimodal(WithField(kText, "hidden_size", "0")), "config.json: text_config: hidden_size is 0; limit");
  expect_refused(Multimodal(WithField(kText, "model_type", "\"gpt2\"")),
                 "config.json: text_config: model_type is 'gpt2'; known in a config of 'mistral3': mistral");
  expect_refused(R"({"model_type": "mistral3"})", "config.json: text_config is missing");
  expect_refused(R"({"model_type": "mistral3", "text_config": 3})", "text_config is 3; must be an object");
  EXPECT_TRUE(Parse(Multimodal(WithField(kText, "model_type", ""))).ok()) << "the first row's";
}

}  // namespace
}  // namespace dunlin::engine
