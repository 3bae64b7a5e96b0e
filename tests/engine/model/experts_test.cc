// SPDX-License-Identifier: Apache-2.0
// Loading of mixtures of experts: one tensor for each expert or a stack of them, what is missing, the counts of
// parameters, and the devices that do not serve them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/load/inspect.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/model.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kExperts = 3;
constexpr int64_t kWidth = 5;
constexpr int64_t kHidden = 4;

// A config of one layer that chooses two of three experts.
std::string Config(const std::string& model_type, const std::string& more = "") {
  return absl::StrCat(R"({"model_type": ")", model_type, R"(", "hidden_size": 4, "intermediate_size": 5,
      "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 6,
      "max_position_embeddings": 16, "num_local_experts": 3, "num_experts_per_tok": 2)",
                      more, "}");
}

std::vector<TestTensor> AttentionTensors() {
  const std::string layer = "model.layers.0.";
  return {TestTensor{"model.embed_tokens.weight", {6, kHidden}},
          TestTensor{"model.norm.weight", {kHidden}},
          TestTensor{"lm_head.weight", {6, kHidden}},
          TestTensor{layer + "input_layernorm.weight", {kHidden}},
          TestTensor{layer + "post_attention_layernorm.weight", {kHidden}},
          TestTensor{layer + "self_attn.q_proj.weight", {4, kHidden}},
          TestTensor{layer + "self_attn.k_proj.weight", {2, kHidden}},
          TestTensor{layer + "self_attn.v_proj.weight", {2, kHidden}},
          TestTensor{layer + "self_attn.o_proj.weight", {kHidden, 4}}};
}

std::vector<TestTensor> MixtralTensors() {
  std::vector<TestTensor> tensors = AttentionTensors();
  const std::string block = "model.layers.0.block_sparse_moe.";
  tensors.push_back(TestTensor{block + "gate.weight", {kExperts, kHidden}});
  for (int expert = 0; expert < kExperts; ++expert) {
    const std::string name = absl::StrCat(block, "experts.", expert, ".w");
    tensors.push_back(TestTensor{name + "1.weight", {kWidth, kHidden}});
    tensors.push_back(TestTensor{name + "2.weight", {kHidden, kWidth}});
    tensors.push_back(TestTensor{name + "3.weight", {kWidth, kHidden}});
  }
  return tensors;
}

std::vector<TestTensor> GraniteMoeTensors() {
  std::vector<TestTensor> tensors = AttentionTensors();
  const std::string block = "model.layers.0.block_sparse_moe.";
  tensors.push_back(TestTensor{block + "router.layer.weight", {kExperts, kHidden}});
  tensors.push_back(TestTensor{block + "input_linear.weight", {kExperts, 2 * kWidth, kHidden}});
  tensors.push_back(TestTensor{block + "output_linear.weight", {kExperts, kHidden, kWidth}});
  return tensors;
}

// Plain stacks, or MXFP4 whose codes are all 0.
std::vector<TestTensor> GptOssTensors(bool mxfp4) {
  std::vector<TestTensor> tensors = AttentionTensors();
  const std::string layer = "model.layers.0.";
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    const int64_t features = std::string(name) == "k_proj" || std::string(name) == "v_proj" ? 2 : kHidden;
    tensors.push_back({layer + "self_attn." + name + ".bias", {features}});
  }
  const std::string experts = layer + "mlp.experts.";
  tensors.push_back({layer + "self_attn.sinks", {2}});
  tensors.push_back({layer + "mlp.router.weight", {kExperts, kHidden}});
  tensors.push_back({layer + "mlp.router.bias", {kExperts}});
  tensors.push_back({experts + "gate_up_proj_bias", {kExperts, 2 * kWidth}});
  tensors.push_back({experts + "down_proj_bias", {kExperts, kHidden}});
  if (!mxfp4) {
    tensors.push_back({experts + "gate_up_proj", {kExperts, kHidden, 2 * kWidth}});
    tensors.push_back({experts + "down_proj", {kExperts, kWidth, kHidden}});
    return tensors;
  }
  tensors.push_back({experts + "gate_up_proj_blocks", {kExperts, 2 * kWidth, 1, 16}, "U8"});
  tensors.push_back({experts + "gate_up_proj_scales", {kExperts, 2 * kWidth, 1}, "U8"});
  tensors.push_back({experts + "down_proj_blocks", {kExperts, kHidden, 1, 16}, "U8"});
  tensors.push_back({experts + "down_proj_scales", {kExperts, kHidden, 1}, "U8"});
  return tensors;
}
constexpr const char* kGptOssFields = R"(, "head_dim": 2)";

using ExpertsTest = ModelLoading;

TEST_F(ExpertsTest, EachExpertHasItsTensors) {
  const auto model = Load(Config("mixtral"), MixtralTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->warnings().empty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[0];
  ASSERT_EQ(layer.experts.size(), 3U);
  EXPECT_EQ(layer.mlp_up.weight.data, nullptr) << "there is no dense MLP";
  const std::string block = "model.layers.0.block_sparse_moe.";
  EXPECT_EQ(ElementOf(layer.router.weight, 2, 1), ValueOf(block + "gate.weight", 2 * kHidden + 1));
  for (int expert = 0; expert < kExperts; ++expert) {
    const ExpertWeights& weights = layer.experts[static_cast<size_t>(expert)];
    const std::string name = absl::StrCat(block, "experts.", expert, ".w");
    EXPECT_TRUE(weights.up.weight.gated);
    EXPECT_EQ(weights.up.weight.out_features, 2 * kWidth);
    EXPECT_EQ(ElementOf(weights.up.weight, 1, 2), ValueOf(name + "1.weight", kHidden + 2)) << "gate";
    EXPECT_EQ(ElementOf(weights.up.weight, kWidth + 1, 2), ValueOf(name + "3.weight", kHidden + 2)) << "up";
    EXPECT_EQ(ElementOf(weights.down.weight, 3, 4), ValueOf(name + "2.weight", 3 * kWidth + 4));
  }
}

TEST_F(ExpertsTest, AStackIsCutIntoExperts) {
  const auto model = Load(Config("granitemoe"), GraniteMoeTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->warnings().empty()) << (*model)->warnings().front();
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[0];
  const std::string block = "model.layers.0.block_sparse_moe.";
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    const ExpertWeights& weights = layer.experts[static_cast<size_t>(expert)];
    const int64_t up = expert * 2 * kWidth * kHidden;
    const int64_t down = expert * kHidden * kWidth;
    EXPECT_EQ(ElementOf(weights.up.weight, 7, 3), ValueOf(block + "input_linear.weight", up + 7 * kHidden + 3));
    EXPECT_EQ(ElementOf(weights.down.weight, 2, 4), ValueOf(block + "output_linear.weight", down + 2 * kWidth + 4));
  }
}

TEST_F(ExpertsTest, GateAndUpOfGptOssAlternateInColumns) {
  const auto model = Load(Config("gpt_oss", kGptOssFields), GptOssTensors(false));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->warnings().empty()) << (*model)->warnings().front();
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[0];
  EXPECT_EQ(layer.sinks[1], ValueOf("model.layers.0.self_attn.sinks", 1));
  EXPECT_EQ(layer.router.bias[2], ValueOf("model.layers.0.mlp.router.bias", 2));
  const std::string experts = "model.layers.0.mlp.experts.";
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    const ExpertWeights& weights = layer.experts[static_cast<size_t>(expert)];
    for (int64_t row = 0; row < 2 * kWidth; ++row) {
      const int64_t stored = row < kWidth ? 2 * row : 2 * (row - kWidth) + 1;
      EXPECT_EQ(weights.up.bias[row], ValueOf(experts + "gate_up_proj_bias", expert * 2 * kWidth + stored));
      EXPECT_EQ(ElementOf(weights.up.weight, row, 3),
                ValueOf(experts + "gate_up_proj", (expert * kHidden + 3) * 2 * kWidth + stored));
    }
    EXPECT_EQ(weights.down.bias[2], ValueOf(experts + "down_proj_bias", expert * kHidden + 2));
    EXPECT_EQ(ElementOf(weights.down.weight, 2, 4),
              ValueOf(experts + "down_proj", (expert * kWidth + 4) * kHidden + 2));
  }
}

TEST_F(ExpertsTest, Mxfp4OfAnotherShapeIsRefusedByName) {
  const std::string config = Config("gpt_oss", R"(, "head_dim": 2, "quantization_config": {"quant_method": "mxfp4"})");
  const absl::Status narrow = Load(config, GptOssTensors(true)).status();
  EXPECT_THAT(std::string(narrow.message()),
              HasSubstr("gate_up_proj' has shape [10, 32]; config.json makes it [10, 4]"));
  std::vector<TestTensor> tensors = GptOssTensors(true);
  for (TestTensor& tensor : tensors) {
    if (tensor.name.ends_with("down_proj_scales")) tensor.shape = {kExperts, kHidden, 2};
  }
  const absl::Status scales = Load(config, tensors).status();
  EXPECT_EQ(scales.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(scales.message()), HasSubstr("down_proj_scales' is U8 [3, 4, 2]; must be U8 [3, 4, 1]"));
}

TEST_F(ExpertsTest, AnExpertThatIsMissingIsNamed) {
  std::vector<TestTensor> tensors = MixtralTensors();
  std::erase_if(tensors,
                [](const TestTensor& tensor) { return tensor.name.find("experts.2.w3") != std::string::npos; });
  const absl::Status missing = Load(Config("mixtral"), tensors).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("lacks 1 tensor(s): model.layers.0.block_sparse_moe.experts.2.w3.weight"));
}

// An FP8 checkpoint leaves the router alone; so does every precision.
TEST_F(ExpertsTest, ExpertsKeepTheirFp8CodesAndTheRouterIsFp32) {
  std::vector<TestTensor> tensors = MixtralTensors();
  std::vector<TestTensor> scales;
  for (TestTensor& tensor : tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    tensor.dtype = "F8_E4M3";
    scales.push_back({tensor.name + "_scale", {tensor.shape[0], 1}, "F32", {0.5F}});
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  const std::string config = Config("mixtral", R"(, "quantization_config": {"quant_method": "fbgemm_fp8"})");
  const auto model = Load(config, tensors, {Precision::kFp8, Precision::kBf16, Precision::kInt4});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Precision precision : (*model)->precisions()) {
    const LayerWeights& layer = (*model)->weights(precision).layers[0];
    EXPECT_EQ(layer.router.weight.format, kernels::WeightFormat::kF32);
    EXPECT_EQ(layer.experts[2].down.weight.format, Traits(precision).format);
  }
  const kernels::PackedWeight& down = (*model)->weights(Precision::kFp8).layers[0].experts[2].down.weight;
  const float value = ValueOf("model.layers.0.block_sparse_moe.experts.2.w2.weight", kWidth + 3);
  EXPECT_EQ(ElementOf(down, 1, 3), kernels::E4M3ToFloat(kernels::FloatToE4M3(value)) * 0.5F);

  for (TestTensor& tensor : tensors) {
    if (tensor.name.ends_with("experts.1.w2.weight")) tensor.dtype = "BF16";
  }
  const absl::Status mixed = Load(config, tensors).status();
  EXPECT_EQ(mixed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(mixed.message()), HasSubstr("which are experts of one layer, only one is F8_E4M3"));
}

TEST_F(ExpertsTest, AStackOfAnotherNumberOfExpertsIsRefused) {
  const std::string config = Config("granitemoe");
  const std::string four = WithField(config, "num_local_experts", "4");
  const absl::Status status = Load(four, GraniteMoeTensors()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("input_linear.weight' holds 3 matrices; config.json makes it 4"));
}

TEST_F(ExpertsTest, ActiveParametersAreThoseOfTheExpertsOfAToken) {
  const auto model = Load(Config("mixtral"), MixtralTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  constexpr int64_t kExpert = 3 * kWidth * kHidden;
  const int64_t others = 2 * 6 * kHidden + 3 * kHidden + (4 + 2 + 2 + 4) * kHidden + kExperts * kHidden;
  EXPECT_EQ((*model)->num_parameters(), others + 3 * kExpert);
  EXPECT_EQ((*model)->num_active_parameters(), others + 2 * kExpert);
  const auto summary = InspectModel({.path = temp_.path(), .random_shape = "", .precisions = {}}, *device_->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->num_parameters, (*model)->num_parameters());
  EXPECT_EQ(summary->num_active_parameters, (*model)->num_active_parameters());
}

// 65,536 experts of all layers together: each takes memory before a tensor of it is looked for.
TEST(Experts, OfAllLayersAreBounded) {
  const auto parse = [](const char* experts) {
    const std::string config = WithField(Config("mixtral"), "num_hidden_layers", "1024");
    return ParseModelConfig(WithField(config, "num_local_experts", experts), "").status();
  };
  EXPECT_TRUE(parse("64").ok()) << parse("64");
  EXPECT_EQ(parse("65").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parse("65").message()),
              HasSubstr("num_local_experts is 65 in 1024 layers; limit is 65536 experts in all"));
}

TEST_F(ExpertsTest, ADeviceThatRoutesNoExpertsRefusesTheModelByName) {
  kernels::DeviceOps ops = *device_->ops;
  ops.supports_model = [](const kernels::ModelTraits& traits, std::vector<std::string>* reasons) {
    if (traits.experts) reasons->emplace_back("experts");
    return !traits.experts;
  };
  device_->ops = &ops;
  const absl::Status status = Load(Config("mixtral"), MixtralTensors()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model_type mixtral has experts, which cpu does not serve"));
  EXPECT_EQ(state_.bytes_held, 0U);
}

}  // namespace
}  // namespace dunlin::engine
