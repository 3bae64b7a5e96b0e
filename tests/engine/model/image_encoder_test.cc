// SPDX-License-Identifier: Apache-2.0
// Encoders of images next to a text model: which configs have one, every field with its limit, the names and places of
// the weights, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/image_encoders.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/merged_columns.h"
#include "engine/model/load/inspect.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/load/opened_model.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kVision = R"({"model_type": "pixtral", "num_hidden_layers": 1, "hidden_size": 8,
    "intermediate_size": 10, "num_attention_heads": 2, "patch_size": 2, "image_size": 13})";
constexpr const char* kImageText = R"({"model_type": "mistral", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 9,
    "max_position_embeddings": 32, "rms_norm_eps": 0.25})";

std::string WithVision(const std::string& vision = kVision) {
  return absl::StrCat(R"({"model_type": "mistral3", "multimodal_projector_bias": true, "vision_config": )", vision,
                      R"(, "text_config": )", kImageText, "}");
}

std::vector<TestTensor> VisionTensors(const std::string& prefix) {
  const std::string tower = prefix + "vision_tower.";
  const std::string layer = tower + "transformer.layers.0.";
  const std::string projector = prefix + "multi_modal_projector.";
  return {{tower + "patch_conv.weight", {8, 3, 2, 2}},
          {tower + "ln_pre.weight", {8}},
          {layer + "attention_norm.weight", {8}},
          {layer + "ffn_norm.weight", {8}},
          {layer + "attention.q_proj.weight", {8, 8}},
          {layer + "attention.k_proj.weight", {8, 8}},
          {layer + "attention.v_proj.weight", {8, 8}},
          {layer + "attention.o_proj.weight", {8, 8}},
          {layer + "feed_forward.gate_proj.weight", {10, 8}},
          {layer + "feed_forward.up_proj.weight", {10, 8}},
          {layer + "feed_forward.down_proj.weight", {8, 10}},
          {projector + "norm.weight", {8}},
          {projector + "patch_merger.merging_layer.weight", {8, 32}},
          {projector + "linear_1.weight", {6, 8}},
          {projector + "linear_1.bias", {6}},
          {projector + "linear_2.weight", {6, 6}},
          {projector + "linear_2.bias", {6}}};
}

class ImageEncoder : public ModelLoading {
 protected:
  absl::StatusOr<std::unique_ptr<Model>> LoadVision(const std::vector<TestTensor>& tensors,
                                                    const std::vector<Precision>& precisions = {Precision::kFp32}) {
    WriteModel(temp_, WithVision(), tensors);
    return LoadModel(Source(precisions), device_.get());
  }
  ModelSource Source(const std::vector<Precision>& precisions) const {
    return {.path = temp_.path(), .random_shape = "", .precisions = precisions, .part = ModelPart::kImageEncoder};
  }
};

TEST_F(ImageEncoder, IsDescribedByBothConfigs) {
  const auto parsed = ParseImageEncoderConfig(WithVision());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_TRUE(parsed->has_value());
  const ModelConfig& config = (*parsed)->config;
  EXPECT_TRUE(config.is_encoder() && config.is_image_encoder());
  EXPECT_EQ(config.architecture, "pixtral");
  EXPECT_EQ(config.vocab_size, 0);
  EXPECT_EQ(config.max_context, 8 * 8) << "13 pixels are 7 patches of 2, which 2 merge into 8";
  EXPECT_EQ(config.image.patch_features(), 12);
  EXPECT_EQ(config.image.merge, 2);
  EXPECT_EQ(config.image.out_dim, 6);
  EXPECT_TRUE(config.image.projector_bias);
  EXPECT_FLOAT_EQ(config.image.norm_epsilon, 0.25F) << "the text model's";
  EXPECT_FLOAT_EQ(config.norm.epsilon, 1e-5F);
  EXPECT_FALSE(config.attention.causal);
  EXPECT_EQ(config.image.num_row_frequencies, 1);
  EXPECT_THAT(config.rotary.inv_freq, ElementsAre(1.0F, testing::FloatEq(1e-2F)));
}

// Three frequencies: the first and the third by the row.
TEST_F(ImageEncoder, FrequenciesTakeTurns) {
  std::string vision = WithField(kVision, "hidden_size", "12");
  vision = WithField(vision, "rope_parameters", R"({"rope_type": "axial", "rope_theta": 1000})");
  const auto parsed = ParseImageEncoderConfig(WithVision(vision));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)->config.image.num_row_frequencies, 2);
  EXPECT_THAT((*parsed)->config.rotary.inv_freq,
              ElementsAre(1.0F, testing::FloatEq(1e-2F), testing::FloatEq(std::pow(1000.0F, -1.0F / 3.0F))));
}

TEST_F(ImageEncoder, OtherConfigsHaveNone) {
  for (const std::string& config :
       {std::string(kLlamaConfig), std::string(kImageText), WithField(WithVision(), "vision_config", ""),
        WithField(WithVision(), "vision_config", "null"), std::string("{}")}) {
    const auto parsed = ParseImageEncoderConfig(config);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_FALSE(parsed->has_value()) << config;
  }
  WriteModel(temp_, kLlamaConfig, LlamaTensors());
  EXPECT_FALSE(ReadImageEncoderConfig(*Directory::Open(temp_.path()))->has_value());
  const absl::Status status = LoadModel(Source({Precision::kFp32}), device_.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("config.json has no encoder of images that is served"));
}

TEST_F(ImageEncoder, EveryKindIsFoundByItsConfigs) {
  for (const ImageEncoderForm* form : ImageEncoderForms()) {
    for (const char* type : form->outer_types) EXPECT_EQ(FindImageEncoder(type), form) << type;
  }
  EXPECT_EQ(FindImageEncoder("mistral"), nullptr);
}

TEST_F(ImageEncoder, EachBadFieldIsNamedWithValueAndLimit) {
  struct BadVision {
    bool outer;
    const char* field;
    const char* value;
    const char* message;
  };
  constexpr BadVision kBad[] = {
      {false, "model_type", "\"siglip\"", "vision_config: model_type is 'siglip'; known: pixtral"},
      {false, "num_hidden_layers", "0", "vision_config: num_hidden_layers is 0; limit is [1, 1024]"},
      {false, "hidden_size", "131073", "hidden_size is 131073; limit is [1, 131072]"},
      {false, "hidden_size", "9", "hidden size is 9, which 2 heads do not divide"},
      {false, "hidden_size", "6", "head_dim is 3; rotary positions need an even one"},
      {false, "head_dim", "8", "head_dim is 8; must be hidden_size / num_attention_heads, 4"},
      {false, "intermediate_size", "0", "intermediate_size is 0; limit is [1, 1048576]"},
      {false, "num_attention_heads", "1025", "num_attention_heads is 1025; limit is [1, 1024]"},
      {false, "num_channels", "4", "num_channels is 4; limit is [3, 3]"},
      {false, "patch_size", "0", "patch_size is 0; limit is [1, 64]"},
      {false, "patch_size", "65", "patch_size is 65; limit is [1, 64]"},
      {false, "patch_size", "[2, 2]", "patch_size is [2,2]; must be an integer"},
      {false, "image_size", "0", "image_size is 0; limit is [1, 16384]"},
      {false, "image_size", "16384", "image_size is 16384, which makes 67108864 patches; limit is 16777216"},
      {false, "hidden_act", "\"relu6\"", "hidden_act is 'relu6'; known"},
      {false, "rope_theta", "1", "rope_theta is 1; limit is"},
      {false, "rope_parameters", R"({"rope_theta": 1})", "rope_parameters: rope_theta is 1; limit is"},
      {false, "rope_parameters", R"({"rope_type": "yarn"})", "rope_type is 'yarn'; known: axial, default"},
      {true, "vision_config", "[]", "vision_config is []; must be an object"},
      {true, "spatial_merge_size", "0", "spatial_merge_size is 0; limit is [1, 16]"},
      {true, "spatial_merge_size", "17", "spatial_merge_size is 17; limit is [1, 16]"},
      {true, "vision_feature_layer", "-2", "vision_feature_layer is -2; limit is [-1, -1]"},
      {true, "projector_hidden_act", "\"tanh\"", "projector_hidden_act is 'tanh'; known"},
      {true, "multimodal_projector_bias", "1", "multimodal_projector_bias is 1; must be true or false"},
  };
  for (const BadVision& bad : kBad) {
    const std::string config = bad.outer ? WithField(WithVision(), bad.field, bad.value)
                                         : WithVision(WithField(kVision, bad.field, bad.value));
    const auto parsed = ParseImageEncoderConfig(config);
    ASSERT_FALSE(parsed.ok()) << config;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(bad.message));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("config.json: "));
  }
}

TEST_F(ImageEncoder, WeightsAreFoundUnderBothPrefixes) {
  for (const std::string prefix : {"", "model."}) {
    std::vector<TestTensor> tensors = VisionTensors(prefix);
    tensors.push_back({"language_model.model.norm.weight", {6}});  // the text model's
    tensors.push_back({"language_model.model.layers.0.self_attn.k_scale", {1}});
    const auto model = LoadVision(tensors);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->warnings(), IsEmpty());
    const PrecisionWeights& weights = (*model)->weights(Precision::kFp32);
    // Row 3 of the convolution: channel 2, y 1, x 0.
    EXPECT_EQ(ElementOf(weights.patch_embedding.weight, 3, 10),
              ValueOf(prefix + "vision_tower.patch_conv.weight", 3 * 12 + 10));
    EXPECT_EQ(ElementOf(weights.layers[0].qkv.weight, 9, 2),
              ValueOf(prefix + "vision_tower.transformer.layers.0.attention.k_proj.weight", 8 + 2));
    // Feature 5 of patch 3, which the file has patch by patch in each feature.
    EXPECT_EQ(ElementOf(weights.projector.merge.weight, 1, 3 * 8 + 5),
              ValueOf(prefix + "multi_modal_projector.patch_merger.merging_layer.weight", 32 + 5 * 4 + 3));
    EXPECT_EQ(ElementOf(weights.projector.down.weight, 5, 4),
              ValueOf(prefix + "multi_modal_projector.linear_2.weight", 5 * 6 + 4));
    EXPECT_EQ(weights.projector.up.bias[2], ValueOf(prefix + "multi_modal_projector.linear_1.bias", 2));
    EXPECT_EQ((*model)->num_parameters(), 96 + 8 + 2 * 8 + 4 * 64 + 3 * 80 + 8 + 256 + 48 + 6 + 36 + 6);
  }
}

TEST_F(ImageEncoder, TensorsOfVisionThatNothingTakesAreTold) {
  std::vector<TestTensor> tensors = VisionTensors("");
  tensors.push_back({"vision_tower.transformer.layers.1.ffn_norm.weight", {8}});
  const auto model = LoadVision(tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), ElementsAre("1 tensor(s) of the checkpoint are not used: "
                                                "vision_tower.transformer.layers.1.ffn_norm.weight"));
}

TEST_F(ImageEncoder, MissingAndWrongTensorsAreRefused) {
  std::vector<TestTensor> tensors = VisionTensors("");
  tensors[0].shape = {8, 3, 4, 1};
  EXPECT_THAT(
      std::string(LoadVision(tensors).status().message()),
      HasSubstr("tensor 'vision_tower.patch_conv.weight' has shape [8, 3, 4, 1]; config.json makes it [8, 12]"));
  tensors = VisionTensors("");
  tensors[12].shape = {8, 30};
  EXPECT_THAT(std::string(LoadVision(tensors).status().message()),
              HasSubstr("merging_layer.weight' has shape [8, 30]; its columns are those of 4 patches"));
  tensors.erase(tensors.begin() + 12);
  const absl::Status missing = LoadVision(tensors).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("lacks 1 tensor(s): multi_modal_projector.patch_merger."));
  tensors = VisionTensors("");
  tensors[12] = {tensors[12].name, {8, 32}, "F8_E4M3"};
  EXPECT_THAT(std::string(LoadVision(tensors).status().message()), HasSubstr("config.json has no quantization_config"));
}

TEST_F(ImageEncoder, RanksAndNarrowPrecisionsAreRefused) {
  for (const Precision precision : {Precision::kFp8, Precision::kInt8, Precision::kInt4}) {
    const absl::Status status = LoadVision(VisionTensors(""), {Precision::kFp32, precision}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("an encoder of images, runs in fp32, bf16 and fp16"));
  }
  ModelSource source = Source({Precision::kFp32});
  source.num_ranks = 2;
  const absl::Status status = LoadModel(source, {device_.get(), device_.get()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("models[].parallel.tensor is 2, but pixtral"));
}

// FP8 with a scale for each tensor, of those for which `quantized` is true.
std::vector<TestTensor> WithFp8(std::vector<TestTensor> tensors, bool (*quantized)(const std::string& name)) {
  const size_t count = tensors.size();
  for (size_t i = 0; i < count; ++i) {
    if (!quantized(tensors[i].name)) continue;
    tensors[i].dtype = "F8_E4M3";
    const std::string name = tensors[i].name + "_scale";
    tensors.push_back({name, {}, "F32", {0.5F}});
  }
  return tensors;
}

// As published: the text model is FP8, the encoder and its projector are not.
TEST_F(ImageEncoder, StaysWideNextToAnFp8TextModel) {
  std::vector<TestTensor> tensors =
      WithFp8(MistralTensors("language_model.model.", "language_model."),
              [](const std::string& name) { return name.find("_proj.") != std::string::npos; });
  for (const TestTensor& tensor : VisionTensors("")) tensors.push_back(tensor);
  const std::string config = WithField(WithVision(), "quantization_config", R"({"quant_method": "fp8",
      "activation_scheme": "dynamic",
      "modules_to_not_convert": ["vision_tower", "multi_modal_projector", "lm_head"]})");
  WriteModel(temp_, config, tensors);
  const auto model = LoadModel(Source({Precision::kFp32}), device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(ElementOf((*model)->weights(Precision::kFp32).projector.merge.weight, 0, 8),
            ValueOf("multi_modal_projector.patch_merger.merging_layer.weight", 1));
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const auto text =
      LoadModel({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device_.get());
  EXPECT_TRUE(text.ok()) << text.status();
}

TEST_F(ImageEncoder, OneInFp8IsDequantised) {
  const std::vector<TestTensor> tensors = WithFp8(VisionTensors(""), [](const std::string& name) {
    return name.find("_proj.") != std::string::npos || name.find("merging_layer") != std::string::npos;
  });
  WriteModel(
      temp_,
      WithField(WithVision(), "quantization_config", R"({"quant_method": "fp8", "activation_scheme": "dynamic"})"),
      tensors);
  const auto model = LoadModel(Source({Precision::kFp32}), device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto rounded = [](const std::string& name, int64_t index) {
    return 0.5F * kernels::E4M3ToFloat(kernels::FloatToE4M3(ValueOf(name, index)));
  };
  const PrecisionWeights& weights = (*model)->weights(Precision::kFp32);
  EXPECT_EQ(ElementOf(weights.projector.merge.weight, 1, 3 * 8 + 5),
            rounded("multi_modal_projector.patch_merger.merging_layer.weight", 32 + 5 * 4 + 3));
  EXPECT_EQ(ElementOf(weights.layers[0].attention_out.weight, 2, 3),
            rounded("vision_tower.transformer.layers.0.attention.o_proj.weight", 2 * 8 + 3));
}

TEST_F(ImageEncoder, IsInspectedWithItsTextModel) {
  std::vector<TestTensor> tensors = MistralTensors("language_model.model.", "language_model.");
  for (const TestTensor& tensor : VisionTensors("")) tensors.push_back(tensor);
  WriteModel(temp_, WithVision(), tensors);
  const auto summary = InspectModel({.path = temp_.path(), .random_shape = "", .precisions = {}}, *device_->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(summary->warnings, IsEmpty());
  EXPECT_THAT(summary->skipped, IsEmpty()) << "nothing of the checkpoint is left";
  ASSERT_TRUE(summary->image_encoder.has_value());
  EXPECT_EQ(summary->image_encoder->config.image.out_dim, summary->config.hidden_dim);
  const auto model = LoadModel(Source({Precision::kFp32}), device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(summary->image_encoder->num_parameters, (*model)->num_parameters());
  EXPECT_EQ(summary->image_encoder->weight_bytes[static_cast<size_t>(Precision::kFp32)],
            (*model)->weight_bytes(Precision::kFp32));
  EXPECT_EQ(summary->image_encoder->weight_bytes[static_cast<size_t>(Precision::kInt4)], 0U);
}

TEST_F(ImageEncoder, RandomOnesHaveTheShape) {
  const auto model = LoadModel(
      {.path = "", .random_shape = WithVision(), .precisions = {Precision::kFp32}, .part = ModelPart::kImageEncoder},
      device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->config().image.out_dim, 6);
}

// Bytes from the middle of an element and of a row are those of the whole.
TEST(MergedColumns, GiveAnyBytes) {
  TempDirectory directory;
  WriteModel(directory, "{}", {{"merge.weight", {3, 12}}, {"other.weight", {3, 12}}});
  const auto merged =
      MergedColumns::Open(*Checkpoint::Open(*Directory::Open(directory.path())), {"merge.weight", "absent.weight"}, 4);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const TensorInfo& tensor = *(*merged)->Find("merge.weight");
  std::vector<float> values(36);
  ASSERT_TRUE((*merged)->Read(tensor, 0, std::as_writable_bytes(std::span(values))).ok());
  for (int row = 0; row < 3; ++row) {
    for (int patch = 0; patch < 4; ++patch) {
      for (int feature = 0; feature < 3; ++feature) {
        EXPECT_EQ(values[static_cast<size_t>(row * 12 + patch * 3 + feature)],
                  ValueOf("merge.weight", row * 12 + feature * 4 + patch));
      }
    }
  }
  const auto whole = std::as_bytes(std::span(values));
  for (size_t first = 0; first < whole.size(); first += 7) {
    for (const size_t count : {size_t{1}, size_t{6}, size_t{51}}) {
      std::vector<std::byte> part(std::min(count, whole.size() - first));
      ASSERT_TRUE((*merged)->Read(tensor, first, part).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)));
    }
  }
  EXPECT_EQ((*merged)->Find("absent.weight"), nullptr);
}

}  // namespace
}  // namespace dunlin::engine
