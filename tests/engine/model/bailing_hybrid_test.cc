// SPDX-License-Identifier: Apache-2.0
// Ling 3: its config in both spellings, which tensors become which matrices, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_traits.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kLingHidden = 6;
constexpr int64_t kLingHeads = 2;
constexpr int64_t kLingDim = 3;  // of a delta net's heads
constexpr int64_t kLingChannels = kLingHeads * kLingDim;

// As published.
constexpr const char* kLing =
    R"({"model_type": "bailing_hybrid", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 9, "max_position_embeddings": 64,
        "kv_lora_rank": 5, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 4, "head_dim": 3,
        "short_conv_kernel_size": 3, "layer_group_size": 2, "first_k_dense_replace": 2, "moe_intermediate_size": 4,
        "num_experts": 3, "num_experts_per_tok": 2, "num_shared_experts": 1, "n_group": 1, "topk_group": 1})";

// `out`: transformers' name, or that of published files.
void AddLingDelta(const std::string& layer, const char* out, std::vector<TestTensor>* tensors) {
  const std::string stem = layer + "attention.";
  for (const char* part : {"q", "k", "v"}) {
    tensors->push_back({absl::StrCat(stem, part, "_proj.weight"), {kLingChannels, kLingHidden}});
    tensors->push_back({absl::StrCat(stem, part, "_conv1d.weight"), {kLingChannels, 1, 3}});
  }
  tensors->insert(tensors->end(), {{stem + "b_proj.weight", {kLingHeads, kLingHidden}},
                                   {stem + "f_proj.weight", {kLingChannels, kLingHidden}},
                                   {stem + "g_proj.weight", {kLingChannels, kLingHidden}},
                                   {stem + "A_log", {kLingHeads}},
                                   {stem + "dt_bias", {kLingChannels}},
                                   {stem + "o_norm.weight", {kLingDim}},
                                   {absl::StrCat(stem, out, ".weight"), {kLingHidden, kLingChannels}}});
}

std::vector<TestTensor> LingTensors(const char* delta_out) {
  const std::string layers = "model.layers.";
  std::vector<TestTensor> tensors = {{"model.word_embeddings.weight", {9, kLingHidden}},
                                     {"model.norm.weight", {kLingHidden}},
                                     {"lm_head.weight", {9, kLingHidden}},
                                     {layers + "1.attention.q_proj.weight", {10, kLingHidden}},
                                     {layers + "1.attention.kv_a_proj_with_mqa.weight", {7, kLingHidden}},
                                     {layers + "1.attention.kv_a_layernorm.weight", {5}},
                                     {layers + "1.attention.kv_b_proj.weight", {14, 5}},
                                     {layers + "1.attention.g_proj.weight", {kLingHeads, kLingHidden}},
                                     {layers + "1.attention.dense.weight", {kLingHidden, 8}},
                                     {layers + "2.mlp.gate.weight", {3, kLingHidden}},
                                     {layers + "2.mlp.gate.expert_bias", {3}}};
  AddLingDelta(layers + "0.", delta_out, &tensors);
  AddLingDelta(layers + "2.", delta_out, &tensors);
  const auto add_mlp = [&tensors](const std::string& stem, int64_t width) {
    tensors.push_back({stem + ".gate_proj.weight", {width, kLingHidden}});
    tensors.push_back({stem + ".up_proj.weight", {width, kLingHidden}});
    tensors.push_back({stem + ".down_proj.weight", {kLingHidden, width}});
  };
  for (int layer = 0; layer < 3; ++layer) {
    tensors.push_back({absl::StrCat(layers, layer, ".input_layernorm.weight"), {kLingHidden}});
    tensors.push_back({absl::StrCat(layers, layer, ".post_attention_layernorm.weight"), {kLingHidden}});
    if (layer < 2) add_mlp(absl::StrCat(layers, layer, ".mlp"), 10);
  }
  for (int expert = 0; expert < 3; ++expert) add_mlp(absl::StrCat(layers, "2.mlp.experts.", expert), 4);
  add_mlp(layers + "2.mlp.shared_experts", 4);
  return tensors;
}

class BailingHybrid : public ModelLoading {
 protected:
  static void ExpectRow(const LinearWeights& linear, int64_t row, const std::string& tensor, int64_t source) {
    EXPECT_EQ(ElementOf(linear.weight, row, 1), ValueOf(tensor, source * linear.weight.in_features + 1))
        << tensor << " row " << row;
  }
};

TEST_F(BailingHybrid, TensorsBecomeWhatTheDeviceTakes) {
  const auto model = Load(kLing, LingTensors("dense"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const std::vector<LayerWeights>& layers = (*model)->weights(Precision::kFp32).layers;
  const DeltaWeights& delta = layers[2].delta;
  const std::string stem = "model.layers.2.attention.";
  ASSERT_EQ(delta.in.weight.out_features, 4 * kLingChannels);
  ExpectRow(delta.in, kLingChannels, stem + "k_proj.weight", 0);
  ExpectRow(delta.in, 2 * kLingChannels + 1, stem + "v_proj.weight", 1);
  ExpectRow(delta.in, 3 * kLingChannels + 2, stem + "g_proj.weight", 2);
  ASSERT_EQ(delta.gates.weight.out_features, kLingHeads);
  ExpectRow(delta.gates, 1, stem + "b_proj.weight", 1);
  ASSERT_EQ(delta.decay.weight.in_features, kLingHidden);
  ExpectRow(delta.decay, 5, stem + "f_proj.weight", 5);
  EXPECT_EQ(delta.z.weight.data, nullptr);
  for (size_t head = 0; head < kLingHeads; ++head) EXPECT_EQ(delta.rate[head], std::exp(ValueOf(stem + "A_log", head)));
  EXPECT_EQ(layers[2].attention_gate.weight.data, nullptr);
  ASSERT_EQ(layers[1].attention_gate.weight.out_features, kLingHeads);
  ExpectRow(layers[1].attention_gate, 1, "model.layers.1.attention.g_proj.weight", 1);
  ExpectRow(layers[1].attention_out, 3, "model.layers.1.attention.dense.weight", 3);
  ExpectRow(layers[2].delta.out, 3, stem + "dense.weight", 3);
  EXPECT_EQ(layers[2].router_correction[1], ValueOf("model.layers.2.mlp.gate.expert_bias", 1));
}

// Ling 3 tiny: queries of a rank, and delta nets whose output is o_proj.
TEST_F(BailingHybrid, PublishedNamesAreRead) {
  std::vector<TestTensor> tensors = LingTensors("o_proj");
  const std::string stem = "model.layers.1.attention.";
  std::erase_if(tensors, [&stem](const TestTensor& tensor) { return tensor.name == stem + "q_proj.weight"; });
  tensors.insert(tensors.end(), {{stem + "q_a_proj.weight", {4, kLingHidden}},
                                 {stem + "q_a_layernorm.weight", {4}},
                                 {stem + "q_b_proj.weight", {10, 4}}});
  const auto model = Load(WithField(kLing, "q_lora_rank", "4"), tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const std::vector<LayerWeights>& layers = (*model)->weights(Precision::kFp32).layers;
  ExpectRow(layers[2].delta.out, 3, "model.layers.2.attention.o_proj.weight", 3);
  ExpectRow(layers[1].attention_out, 3, stem + "dense.weight", 3);
  ASSERT_EQ(layers[1].latent.query.weight.in_features, 4);
  ExpectRow(layers[1].latent.query_down, 3, stem + "q_a_proj.weight", 3);
  // partial_rotary_factor is of the linear layers of Ling 2: the rotated part of a head is rotated whole.
  EXPECT_EQ(ParsedConfig(WithField(kLing, "partial_rotary_factor", "0.5")).rotary.dim, 2);
}

TEST_F(BailingHybrid, PublishedConfigsAndThoseOfTransformersAreRead) {
  const ModelConfig config = ParsedConfig(kLing);
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kDelta, MixerKind::kAttention, MixerKind::kDelta));
  EXPECT_EQ(config.delta.decay_bound, -5.0F);
  EXPECT_TRUE(config.delta.channel_decays);
  EXPECT_TRUE(config.rotary.interleaved);
  EXPECT_EQ(config.rotary.dim, 2);
  EXPECT_EQ(config.experts.routing.num_chosen, 2);
  EXPECT_FLOAT_EQ(config.experts.routing.scale, 2.5F);
  EXPECT_FALSE(config.experts.in_layer(1));
  EXPECT_TRUE(ModelTraitsOf(config).row_decays);
  EXPECT_EQ(ParsedConfig(WithField(kLing, "kda_safe_gate", "false")).delta.decay_bound, 0.0F);
  EXPECT_EQ(ParsedConfig(WithField(kLing, "kda_lower_bound", "-3")).delta.decay_bound, -3.0F);
  // Base of the angles: 6 million where nothing says it.
  const std::string four = WithField(kLing, "qk_rope_head_dim", "4");
  EXPECT_FLOAT_EQ(ParsedConfig(four).rotary.inv_freq[1], 1.0F / std::sqrt(6e6F));
  EXPECT_FLOAT_EQ(ParsedConfig(WithField(four, "rope_theta", "10000")).rotary.inv_freq[1], 0.01F);
  std::string text = WithField(kLing, "layer_types", R"(["full_attention", "linear_attention", "linear_attention"])");
  text = WithField(WithField(WithField(text, "head_dim", "2"), "linear_head_dim", "5"), "linear_conv_kernel_dim", "4");
  text = WithField(WithField(text, "num_experts_per_tok", ""), "num_experts_per_token", "1");
  text = WithField(WithField(text, "max_position_embeddings", ""), "model_max_length", "32");
  const ModelConfig saved = ParsedConfig(text);
  EXPECT_THAT(saved.mixers, ElementsAre(MixerKind::kAttention, MixerKind::kDelta, MixerKind::kDelta));
  EXPECT_EQ(saved.delta.shape.key_dim, 5);
  EXPECT_EQ(saved.delta.conv_taps, 4);
  EXPECT_EQ(saved.experts.routing.num_chosen, 1);
  EXPECT_EQ(saved.max_context, 32);
}

const BadField kLingRefused[] = {
    {kLing, "kda_lower_bound", "0", "kda_lower_bound is 0; limit is [-80, -0.001]"},
    {kLing, "hidden_act", R"("gelu")", "hidden_act is 'gelu'; known: silu"},
    {kLing, "score_function", R"("softmax")", "score_function is 'softmax'; known: sigmoid"},
    {kLing, "layer_group_size", "4", "no layer has full attention"},
    {kLing, "short_conv_kernel_size", "9", "short_conv_kernel_size is 9; limit is [2, 8]"},
    {kLing, "use_qkv_bias", "true", "use_qkv_bias is true"},
    {kLing, "architectures", R"(["BailingMoeV2_5ForCausalLM"])",
     "architectures names BailingMoeV2_5ForCausalLM, whose linear attention is not supported"},
};

TEST_F(BailingHybrid, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kLingRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
