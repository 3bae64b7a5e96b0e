// SPDX-License-Identifier: Apache-2.0
// Loading of mixtures of experts: one tensor for each expert or a stack of them, what is missing, the counts of
// parameters, and the devices that do not serve them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/inspect.h"
#include "engine/model/model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

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

class ExpertsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& config, const std::vector<TestTensor>& tensors) {
    WriteModel(temp_, config, tensors);
    return Model::Load({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device_.get());
  }

  TempDirectory temp_;
  PlainDeviceState state_;
  std::unique_ptr<kernels::Device> device_ = MakePlainDevice(&state_);
};

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

TEST_F(ExpertsTest, AnExpertThatIsMissingIsNamed) {
  std::vector<TestTensor> tensors = MixtralTensors();
  std::erase_if(tensors,
                [](const TestTensor& tensor) { return tensor.name.find("experts.2.w3") != std::string::npos; });
  const absl::Status missing = Load(Config("mixtral"), tensors).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("lacks 1 tensor(s): model.layers.0.block_sparse_moe.experts.2.w3.weight"));
}

TEST_F(ExpertsTest, AStackOfAnotherNumberOfExpertsIsRefused) {
  const std::string config = Config("granitemoe");
  const std::string four = WithField(config, "num_local_experts", "4");
  const absl::Status status = Load(four, GraniteMoeTensors()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("input_linear.weight' holds 3 experts; config.json has 4"));
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

TEST_F(ExpertsTest, ADeviceThatRoutesNoExpertsRefusesTheModelByName) {
  kernels::DeviceOps ops = *device_->ops;
  ops.routes_experts = false;
  device_->ops = &ops;
  const absl::Status status = Load(Config("mixtral"), MixtralTensors()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model_type mixtral has experts, which cpu does not serve"));
  EXPECT_EQ(state_.bytes_held, 0U);
}

}  // namespace
}  // namespace dunlin::engine
