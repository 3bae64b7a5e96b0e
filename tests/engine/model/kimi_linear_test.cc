// SPDX-License-Identifier: Apache-2.0
// Kimi Linear: its config in both spellings, and which tensors become which matrices and vectors.
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

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kKimiHidden = 6;
constexpr int64_t kKimiHeads = 2;  // of delta nets
constexpr int64_t kKimiDim = 3;
constexpr int64_t kKimiKeys = kKimiHeads * kKimiDim;
constexpr int64_t kKimiTaps = 3;

// As published.
constexpr const char* kKimi =
    R"({"model_type": "kimi_linear", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 9, "model_max_length": 64,
        "kv_lora_rank": 5, "q_lora_rank": null, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 4,
        "linear_attn_config": {"full_attn_layers": [2], "head_dim": 3, "kda_layers": [1, 3], "num_heads": 2,
                               "short_conv_kernel_size": 3},
        "first_k_dense_replace": 2, "moe_intermediate_size": 4, "moe_renormalize": true, "num_experts": 3,
        "num_experts_per_token": 2, "num_shared_experts": 1, "num_expert_group": 1, "topk_group": 1,
        "moe_router_activation_func": "sigmoid", "mla_use_nope": true, "rope_theta": 10000.0, "rope_scaling": null,
        "routed_scaling_factor": 2.446, "use_grouped_topk": true})";

void AddKimiDelta(const std::string& layer, std::vector<TestTensor>* tensors) {
  const std::string stem = layer + "self_attn.";
  for (const char* part : {"q", "k", "v"}) {
    tensors->push_back({absl::StrCat(stem, part, "_proj.weight"), {kKimiKeys, kKimiHidden}});
    tensors->push_back({absl::StrCat(stem, part, "_conv1d.weight"), {kKimiKeys, 1, kKimiTaps}});
  }
  tensors->insert(tensors->end(), {{stem + "b_proj.weight", {kKimiHeads, kKimiHidden}},
                                   {stem + "f_a_proj.weight", {kKimiDim, kKimiHidden}},
                                   {stem + "f_b_proj.weight", {kKimiKeys, kKimiDim}},
                                   {stem + "g_a_proj.weight", {kKimiDim, kKimiHidden}},
                                   {stem + "g_b_proj.weight", {kKimiKeys, kKimiDim}},
                                   {stem + "A_log", {1, 1, kKimiHeads, 1}},
                                   {stem + "dt_bias", {kKimiKeys}},
                                   {stem + "o_norm.weight", {kKimiDim}},
                                   {stem + "o_proj.weight", {kKimiHidden, kKimiKeys}}});
}

std::vector<TestTensor> KimiTensors() {
  const std::string layers = "model.layers.";
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kKimiHidden}},
                                     {"model.norm.weight", {kKimiHidden}},
                                     {"lm_head.weight", {9, kKimiHidden}},
                                     {layers + "1.self_attn.q_proj.weight", {10, kKimiHidden}},
                                     {layers + "1.self_attn.kv_a_proj_with_mqa.weight", {7, kKimiHidden}},
                                     {layers + "1.self_attn.kv_a_layernorm.weight", {5}},
                                     {layers + "1.self_attn.kv_b_proj.weight", {14, 5}},
                                     {layers + "1.self_attn.o_proj.weight", {kKimiHidden, 8}},
                                     {layers + "2.block_sparse_moe.gate.weight", {3, kKimiHidden}},
                                     {layers + "2.block_sparse_moe.gate.e_score_correction_bias", {3}}};
  AddKimiDelta(layers + "0.", &tensors);
  AddKimiDelta(layers + "2.", &tensors);
  for (int layer = 0; layer < 3; ++layer) {
    tensors.push_back({absl::StrCat(layers, layer, ".input_layernorm.weight"), {kKimiHidden}});
    tensors.push_back({absl::StrCat(layers, layer, ".post_attention_layernorm.weight"), {kKimiHidden}});
    if (layer == 2) continue;
    tensors.push_back({absl::StrCat(layers, layer, ".mlp.gate_proj.weight"), {10, kKimiHidden}});
    tensors.push_back({absl::StrCat(layers, layer, ".mlp.up_proj.weight"), {10, kKimiHidden}});
    tensors.push_back({absl::StrCat(layers, layer, ".mlp.down_proj.weight"), {kKimiHidden, 10}});
  }
  const std::string moe = layers + "2.block_sparse_moe.";
  for (int expert = 0; expert < 3; ++expert) {
    tensors.push_back({absl::StrCat(moe, "experts.", expert, ".w1.weight"), {4, kKimiHidden}});
    tensors.push_back({absl::StrCat(moe, "experts.", expert, ".w2.weight"), {kKimiHidden, 4}});
    tensors.push_back({absl::StrCat(moe, "experts.", expert, ".w3.weight"), {4, kKimiHidden}});
  }
  tensors.insert(tensors.end(), {{moe + "shared_experts.gate_proj.weight", {4, kKimiHidden}},
                                 {moe + "shared_experts.up_proj.weight", {4, kKimiHidden}},
                                 {moe + "shared_experts.down_proj.weight", {kKimiHidden, 4}}});
  return tensors;
}

class KimiLinear : public ModelLoading {
 protected:
  static void ExpectRow(const LinearWeights& linear, int64_t row, const std::string& tensor, int64_t source) {
    EXPECT_EQ(ElementOf(linear.weight, row, 1),
              ValueOf(tensor, static_cast<size_t>(source * linear.weight.in_features + 1)))
        << tensor << " row " << row;
  }
};

TEST_F(KimiLinear, TensorsBecomeWhatTheDeviceTakes) {
  const auto model = Load(kKimi, KimiTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const std::vector<LayerWeights>& layers = (*model)->weights(Precision::kFp32).layers;
  const DeltaWeights& delta = layers[2].delta;
  const std::string stem = "model.layers.2.self_attn.";
  ASSERT_EQ(delta.in.weight.out_features, 3 * kKimiKeys);
  ExpectRow(delta.in, 0, stem + "q_proj.weight", 0);
  ExpectRow(delta.in, 2 * kKimiKeys - 1, stem + "k_proj.weight", kKimiKeys - 1);
  ExpectRow(delta.in, 2 * kKimiKeys, stem + "v_proj.weight", 0);
  ASSERT_EQ(delta.gates.weight.out_features, kKimiHeads + 2 * kKimiDim);
  ExpectRow(delta.gates, 1, stem + "b_proj.weight", 1);
  ExpectRow(delta.gates, kKimiHeads + 2, stem + "f_a_proj.weight", 2);
  ExpectRow(delta.gates, kKimiHeads + kKimiDim, stem + "g_a_proj.weight", 0);
  ExpectRow(delta.decay, 5, stem + "f_b_proj.weight", 5);
  ExpectRow(delta.z, 4, stem + "g_b_proj.weight", 4);
  ExpectRow(delta.out, 5, stem + "o_proj.weight", 5);
  int64_t part = 0;
  for (const char* name : {"q", "k", "v"}) {
    for (int64_t tap = 0; tap < kKimiTaps; ++tap) {
      for (int64_t channel = 0; channel < kKimiKeys; ++channel) {
        ASSERT_EQ(delta.conv[(tap * 3 + part) * kKimiKeys + channel],
                  ValueOf(absl::StrCat(stem, name, "_conv1d.weight"), static_cast<size_t>(channel * kKimiTaps + tap)))
            << name << " " << tap << " " << channel;
      }
    }
    ++part;
  }
  for (size_t head = 0; head < kKimiHeads; ++head) EXPECT_EQ(delta.rate[head], std::exp(ValueOf(stem + "A_log", head)));
  for (size_t i = 0; i < kKimiKeys; ++i) EXPECT_EQ(delta.time_bias[i], ValueOf(stem + "dt_bias", i));
  EXPECT_EQ(layers[2].latent.query.weight.data, nullptr);
  EXPECT_EQ(layers[2].attention_out.weight.data, nullptr);
  EXPECT_EQ(layers[1].delta.in.weight.data, nullptr);
  ExpectRow(layers[1].latent.query, 9, "model.layers.1.self_attn.q_proj.weight", 9);
  ExpectRow(layers[2].experts[1].down, 3, "model.layers.2.block_sparse_moe.experts.1.w2.weight", 3);
}

TEST_F(KimiLinear, PublishedConfigsAndThoseOfTransformersAreRead) {
  const auto published = ParseModelConfig(kKimi, "");
  ASSERT_TRUE(published.ok()) << published.status();
  const ModelConfig& config = published->config;
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kDelta, MixerKind::kAttention, MixerKind::kDelta));
  EXPECT_EQ(config.max_context, 64);
  EXPECT_EQ(config.rotary.dim, 0);
  EXPECT_EQ(config.attention.latent.query_rank, 0);
  EXPECT_EQ(config.delta.gate_rank, 3);
  EXPECT_EQ(config.experts.routing.num_chosen, 2);
  EXPECT_FLOAT_EQ(config.experts.routing.scale, 2.446F);
  EXPECT_FALSE(config.experts.in_layer(1));
  EXPECT_TRUE(config.experts.in_layer(2));
  std::string text = WithField(kKimi, "linear_attn_config", "");
  text = WithField(text, "layer_types", R"(["full_attention", "linear_attention", "linear_attention"])");
  text = WithField(WithField(text, "linear_num_heads", "4"), "linear_head_dim", "5");
  text = WithField(WithField(text, "num_experts_per_token", ""), "num_experts_per_tok", "1");
  text = WithField(WithField(text, "model_max_length", ""), "max_position_embeddings", "32");
  const auto current = ParseModelConfig(text, "");
  ASSERT_TRUE(current.ok()) << current.status();
  EXPECT_THAT(current->config.mixers, ElementsAre(MixerKind::kAttention, MixerKind::kDelta, MixerKind::kDelta));
  EXPECT_EQ(current->config.delta.shape.value_heads, 4);
  EXPECT_EQ(current->config.delta.shape.key_dim, 5);
  EXPECT_EQ(current->config.experts.routing.num_chosen, 1);
  EXPECT_EQ(current->config.max_context, 32);
}

TEST_F(KimiLinear, OneListOfLayersGivesTheOther) {
  for (const char* list : {R"({"full_attn_layers": [2]})", R"({"kda_layers": [1, 3]})",
                           R"({"full_attn_layers": [2], "kda_layers": null})"}) {
    EXPECT_THAT(ParsedConfig(WithField(kKimi, "linear_attn_config", list)).mixers,
                ElementsAre(MixerKind::kDelta, MixerKind::kAttention, MixerKind::kDelta))
        << list;
  }
}

const BadField kKimiRefused[] = {
    {kKimi, "mla_use_nope", "false", "mla_use_nope is false"},
    {kKimi, "hidden_act", R"("gelu")", "hidden_act is 'gelu'; known: silu"},
    {kKimi, "moe_router_activation_func", R"("softmax")", "moe_router_activation_func is 'softmax'; known: sigmoid"},
    {kKimi, "num_experts_per_token", "4", "num_experts_per_token is 4; limit is [1, 3]"},
    {kKimi, "num_expert_group", "2", "num_expert_group is 2, which does not divide 3 experts"},
    {kKimi, "layer_types", R"(["linear_attention", "linear_attention", "linear_attention"])",
     "no layer has full attention"},
    {kKimi, "linear_attn_config", R"({"full_attn_layers": [2], "kda_layers": [1]})",
     "linear_attn_config: neither full_attn_layers nor kda_layers has layer 3"},
    {kKimi, "linear_attn_config", R"({"full_attn_layers": [2], "kda_layers": [1, 2, 3]})",
     "linear_attn_config: kda_layers has layer 2, which is in a list already"},
    {kKimi, "linear_attn_config", R"({"full_attn_layers": [4], "kda_layers": [1, 2, 3]})",
     "linear_attn_config: full_attn_layers is 4; limit is [1, 3]"},
    {kKimi, "linear_attn_config", R"({"short_conv_kernel_size": 9})",
     "linear_attn_config: short_conv_kernel_size is 9; limit is [2, 8]"},
};

TEST_F(KimiLinear, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kKimiRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
