// SPDX-License-Identifier: Apache-2.0
// Hybrids of gated delta nets and attention: which rows of a checkpoint become which matrices and vectors, with split
// and fused projections, and with experts of a tensor each and in stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kDeltaHidden = 6;
constexpr int64_t kHeadDim = 8;  // of attention: 2 heads on one
constexpr int64_t kKeyHeads = 2;
constexpr int64_t kValueHeads = 4;
constexpr int64_t kKeyDim = 3;
constexpr int64_t kValueDim = 2;
constexpr int64_t kTaps = 3;
constexpr int64_t kKeys = kKeyHeads * kKeyDim;
constexpr int64_t kValues = kValueHeads * kValueDim;
constexpr int64_t kChannels = 2 * kKeys + kValues;

std::string DeltaConfig(const std::string& model_type, const std::string& more = "") {
  return absl::StrCat(R"({"model_type": ")", model_type, R"(", "hidden_size": 6, "intermediate_size": 10,
      "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 9,
      "full_attention_interval": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 3,
      "linear_value_head_dim": 2, "linear_conv_kernel_dim": 3)",
                      more, "}");
}

const std::string kDelta = "model.layers.0.linear_attn.";
const std::string kAttention = "model.layers.1.self_attn.";

std::vector<TestTensor> Common() {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kDeltaHidden}},
                                     {"model.norm.weight", {kDeltaHidden}},
                                     {"lm_head.weight", {9, kDeltaHidden}},
                                     {kDelta + "conv1d.weight", {kChannels, 1, kTaps}},
                                     {kDelta + "A_log", {kValueHeads}},
                                     {kDelta + "dt_bias", {kValueHeads}},
                                     {kDelta + "norm.weight", {kValueDim}},
                                     {kDelta + "out_proj.weight", {kDeltaHidden, kValues}},
                                     {kAttention + "q_proj.weight", {2 * 2 * kHeadDim, kDeltaHidden}},
                                     {kAttention + "k_proj.weight", {kHeadDim, kDeltaHidden}},
                                     {kAttention + "v_proj.weight", {kHeadDim, kDeltaHidden}},
                                     {kAttention + "q_norm.weight", {kHeadDim}},
                                     {kAttention + "k_norm.weight", {kHeadDim}},
                                     {kAttention + "o_proj.weight", {kDeltaHidden, 2 * kHeadDim}}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    tensors.push_back({absl::StrCat(layer, "input_layernorm.weight"), {kDeltaHidden}});
    tensors.push_back({absl::StrCat(layer, "post_attention_layernorm.weight"), {kDeltaHidden}});
  }
  return tensors;
}

void AddSplit(std::vector<TestTensor>* tensors) {
  tensors->push_back({kDelta + "in_proj_qkv.weight", {kChannels, kDeltaHidden}});
  tensors->push_back({kDelta + "in_proj_z.weight", {kValues, kDeltaHidden}});
  tensors->push_back({kDelta + "in_proj_b.weight", {kValueHeads, kDeltaHidden}});
  tensors->push_back({kDelta + "in_proj_a.weight", {kValueHeads, kDeltaHidden}});
}

void AddMlps(std::vector<TestTensor>* tensors) {
  for (const char* layer : {"model.layers.0.mlp.", "model.layers.1.mlp."}) {
    for (const char* name : {"gate_proj.weight", "up_proj.weight"}) {
      tensors->push_back({absl::StrCat(layer, name), {10, kDeltaHidden}});
    }
    tensors->push_back({absl::StrCat(layer, "down_proj.weight"), {kDeltaHidden, 10}});
  }
}

class DeltaNet : public ModelLoading {
 protected:
  // Row `row` of a packed matrix is row `stored` of a tensor.
  static void ExpectRow(const LinearWeights& linear, int64_t row, const std::string& tensor, int64_t stored) {
    for (int64_t column = 0; column < linear.weight.in_features; ++column) {
      ASSERT_EQ(ElementOf(linear.weight, row, column),
                ValueOf(tensor, static_cast<size_t>(stored * linear.weight.in_features + column)))
          << tensor << " row " << stored << " as row " << row;
    }
  }
};

TEST_F(DeltaNet, SplitProjectionsAreFusedAndVectorsAreAsTheDeviceTakesThem) {
  std::vector<TestTensor> tensors = Common();
  AddSplit(&tensors);
  AddMlps(&tensors);
  const auto model = Load(DeltaConfig("qwen3_5_text"), tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[0];
  const DeltaWeights& delta = layer.delta;
  EXPECT_EQ(delta.in.weight.out_features, kChannels + kValues);
  ExpectRow(delta.in, 0, kDelta + "in_proj_qkv.weight", 0);
  ExpectRow(delta.in, kChannels - 1, kDelta + "in_proj_qkv.weight", kChannels - 1);
  ExpectRow(delta.in, kChannels, kDelta + "in_proj_z.weight", 0);
  ExpectRow(delta.gates, 1, kDelta + "in_proj_b.weight", 1);
  ExpectRow(delta.gates, kValueHeads + 1, kDelta + "in_proj_a.weight", 1);
  ExpectRow(delta.out, 2, kDelta + "out_proj.weight", 2);
  for (int64_t tap = 0; tap < kTaps; ++tap) {
    for (int64_t channel = 0; channel < kChannels; ++channel) {
      ASSERT_EQ(delta.conv[tap * kChannels + channel],
                ValueOf(kDelta + "conv1d.weight", static_cast<size_t>(channel * kTaps + tap)));
    }
  }
  for (size_t head = 0; head < kValueHeads; ++head) {
    EXPECT_EQ(delta.rate[head], std::exp(ValueOf(kDelta + "A_log", head)));
    EXPECT_EQ(delta.time_bias[head], ValueOf(kDelta + "dt_bias", head));
  }
  EXPECT_EQ(delta.norm[1], ValueOf(kDelta + "norm.weight", 1)) << "not 1 + w";
  EXPECT_EQ(layer.attention_norm.weight[1], 1.0F + ValueOf("model.layers.0.input_layernorm.weight", 1));
  EXPECT_EQ(layer.qkv.weight.data, nullptr);
}

TEST_F(DeltaNet, QueriesAndTheirGatesAlternateByHead) {
  std::vector<TestTensor> tensors = Common();
  AddSplit(&tensors);
  AddMlps(&tensors);
  const auto model = Load(DeltaConfig("qwen3_5_text"), tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[1];
  for (int64_t head = 0; head < 2; ++head) {
    for (const int64_t row : {int64_t{0}, kHeadDim - 1}) {
      ExpectRow(layer.qkv, head * kHeadDim + row, kAttention + "q_proj.weight", 2 * head * kHeadDim + row);
      ExpectRow(layer.attention_gate, head * kHeadDim + row, kAttention + "q_proj.weight",
                (2 * head + 1) * kHeadDim + row);
    }
  }
  ExpectRow(layer.qkv, 2 * kHeadDim, kAttention + "k_proj.weight", 0);
  ExpectRow(layer.qkv, 3 * kHeadDim, kAttention + "v_proj.weight", 0);
  EXPECT_EQ(layer.delta.in.weight.data, nullptr);
}

TEST_F(DeltaNet, FusedProjectionsAreTakenApartByKeyHead) {
  std::vector<TestTensor> tensors = Common();
  tensors.push_back({kDelta + "in_proj_qkvz.weight", {kChannels + kValues, kDeltaHidden}});
  tensors.push_back({kDelta + "in_proj_ba.weight", {2 * kValueHeads, kDeltaHidden}});
  AddMlps(&tensors);
  const auto model = Load(DeltaConfig("qwen3_next", R"(, "mlp_only_layers": [0, 1], "num_experts": 4,
      "num_experts_per_tok": 2)"),
                          tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const DeltaWeights& delta = (*model)->weights(Precision::kFp32).layers[0].delta;
  const std::string qkvz = kDelta + "in_proj_qkvz.weight";
  const int64_t values = 2 * kValueDim;  // of a key head
  const int64_t head = 2 * (kKeyDim + values);
  ExpectRow(delta.in, kKeyDim, qkvz, head);                                    // the second head's query
  ExpectRow(delta.in, kKeys + kKeyDim, qkvz, head + kKeyDim);                  // its key
  ExpectRow(delta.in, 2 * kKeys + values, qkvz, head + 2 * kKeyDim);           // its values
  ExpectRow(delta.in, kChannels + values, qkvz, head + 2 * kKeyDim + values);  // their z
  const std::string ba = kDelta + "in_proj_ba.weight";
  ExpectRow(delta.gates, 2, ba, 4);                // b of the third value head, the second key head's first
  ExpectRow(delta.gates, kValueHeads + 3, ba, 7);  // a of the last one
}

TEST_F(DeltaNet, ExpertsAreFoundInStacksToo) {
  std::vector<TestTensor> single = Common();
  AddSplit(&single);
  for (const char* layer : {"model.layers.0.mlp.", "model.layers.1.mlp."}) {
    single.push_back({absl::StrCat(layer, "gate.weight"), {3, kDeltaHidden}});
    single.push_back({absl::StrCat(layer, "shared_expert_gate.weight"), {1, kDeltaHidden}});
    for (const char* name : {"gate_proj.weight", "up_proj.weight"}) {
      single.push_back({absl::StrCat(layer, "shared_expert.", name), {5, kDeltaHidden}});
    }
    single.push_back({absl::StrCat(layer, "shared_expert.down_proj.weight"), {kDeltaHidden, 5}});
  }
  std::vector<TestTensor> stacked = single;
  for (const char* layer : {"model.layers.0.mlp.experts.", "model.layers.1.mlp.experts."}) {
    stacked.push_back({absl::StrCat(layer, "gate_up_proj"), {3, 8, kDeltaHidden}});
    stacked.push_back({absl::StrCat(layer, "down_proj"), {3, kDeltaHidden, 4}});
    for (const char* expert : {"0.", "1.", "2."}) {
      for (const char* name : {"gate_proj.weight", "up_proj.weight"}) {
        single.push_back({absl::StrCat(layer, expert, name), {4, kDeltaHidden}});
      }
      single.push_back({absl::StrCat(layer, expert, "down_proj.weight"), {kDeltaHidden, 4}});
    }
  }
  const std::string config = DeltaConfig("qwen3_5_moe_text", R"(, "num_experts": 3, "num_experts_per_tok": 2,
      "moe_intermediate_size": 4, "shared_expert_intermediate_size": 5)");
  const std::string experts = "model.layers.1.mlp.experts.";
  const auto with_single = Load(config, single);
  ASSERT_TRUE(with_single.ok()) << with_single.status();
  const ExpertWeights one = (*with_single)->weights(Precision::kFp32).layers[1].experts[2];
  ExpectRow(one.up, 4 + 1, experts + "2.up_proj.weight", 1);
  const auto with_stacks = Load(config, stacked);
  ASSERT_TRUE(with_stacks.ok()) << with_stacks.status();
  EXPECT_THAT((*with_stacks)->warnings(), IsEmpty());
  const ExpertWeights other = (*with_stacks)->weights(Precision::kFp32).layers[1].experts[2];
  ExpectRow(other.up, 5, experts + "gate_up_proj", 2 * 8 + 5);
  ExpectRow(other.down, 3, experts + "down_proj", 2 * kDeltaHidden + 3);
}

TEST_F(DeltaNet, TheTextPartOfAMultimodalConfigIsServed) {
  const auto model = ParseModelConfig(absl::StrCat(R"({"model_type": "qwen3_5", "vision_config": {}, "text_config": )",
                                                   DeltaConfig("qwen3_5_text"), "}"),
                                      "");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.num_recurrent_layers(), 1);
  EXPECT_TRUE(model->config.attention.output_gate);
}

TEST_F(DeltaNet, AConvolutionOfOtherTapsIsRefused) {
  std::vector<TestTensor> tensors = Common();
  AddSplit(&tensors);
  AddMlps(&tensors);
  for (TestTensor& tensor : tensors) {
    if (tensor.name == kDelta + "conv1d.weight") tensor.shape = {kChannels, 1, kTaps + 1};
  }
  EXPECT_THAT(std::string(Load(DeltaConfig("qwen3_5_text"), tensors).status().message()),
              HasSubstr("linear_attn.conv1d.weight' has shape [20, 1, 4]; config.json makes it [20, 1, 3]"));
}

}  // namespace
}  // namespace dunlin::engine
