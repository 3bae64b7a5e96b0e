// SPDX-License-Identifier: Apache-2.0
// Llama 4: which layers have chunks, positions, norms and experts, and stacks of experts stored by columns.
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
using ::testing::IsEmpty;

constexpr int64_t kLlama4Hidden = 6;
constexpr int64_t kLlama4ExpertFfn = 5;
constexpr const char* kLlama4 =
    R"({"model_type": "llama4_text", "hidden_size": 6, "intermediate_size": 5, "intermediate_size_mlp": 10,
        "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 9,
        "num_local_experts": 3, "interleave_moe_layer_step": 2, "attention_chunk_size": 64,
        "max_position_embeddings": 256})";

void AddMlp(const std::string& stem, int64_t ffn, std::vector<TestTensor>* tensors) {
  tensors->insert(tensors->end(), {{stem + "gate_proj.weight", {ffn, kLlama4Hidden}},
                                   {stem + "up_proj.weight", {ffn, kLlama4Hidden}},
                                   {stem + "down_proj.weight", {kLlama4Hidden, ffn}}});
}

std::vector<TestTensor> Llama4Tensors(bool stacked) {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kLlama4Hidden}},
                                     {"model.norm.weight", {kLlama4Hidden}},
                                     {"lm_head.weight", {9, kLlama4Hidden}}};
  for (int layer = 0; layer < 4; ++layer) {
    const std::string stem = absl::StrCat("model.layers.", layer, ".");
    tensors.insert(tensors.end(), {{stem + "self_attn.q_proj.weight", {8, kLlama4Hidden}},
                                   {stem + "self_attn.k_proj.weight", {4, kLlama4Hidden}},
                                   {stem + "self_attn.v_proj.weight", {4, kLlama4Hidden}},
                                   {stem + "self_attn.o_proj.weight", {kLlama4Hidden, 8}},
                                   {stem + "input_layernorm.weight", {kLlama4Hidden}},
                                   {stem + "post_attention_layernorm.weight", {kLlama4Hidden}}});
    const std::string mlp = stem + "feed_forward.";
    if (layer % 2 == 0) {
      AddMlp(mlp, 10, &tensors);
      continue;
    }
    tensors.push_back({mlp + "router.weight", {3, kLlama4Hidden}});
    AddMlp(mlp + "shared_expert.", kLlama4ExpertFfn, &tensors);
    if (stacked) {
      tensors.push_back({mlp + "experts.gate_up_proj", {3, kLlama4Hidden, 2 * kLlama4ExpertFfn}});
      tensors.push_back({mlp + "experts.down_proj", {3, kLlama4ExpertFfn, kLlama4Hidden}});
    } else {
      for (int expert = 0; expert < 3; ++expert) AddMlp(absl::StrCat(mlp, "experts.", expert, "."), 5, &tensors);
    }
  }
  return tensors;
}

class Llama4 : public ModelLoading {};

TEST_F(Llama4, LayersWithPositionsHaveChunksAndNorms) {
  const ModelConfig config = ParsedConfig(kLlama4);
  EXPECT_THAT(config.rotary.layer_index, ElementsAre(0, 0, 0, -1));
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(64, 64, 64, 0));
  EXPECT_EQ(config.attention.chunk(2), 64);
  EXPECT_EQ(config.attention.chunk(3), 0);
  EXPECT_TRUE(HasSlot(config, WeightSlot::kQueryNorm, 0));
  EXPECT_FALSE(HasSlot(config, WeightSlot::kQueryNorm, 3));
  EXPECT_FALSE(HasSlot(config, WeightSlot::kKeyNorm, 3));
  EXPECT_TRUE(config.attention.scales_queries(false));
  EXPECT_FALSE(config.attention.scales_queries(true));
  EXPECT_FLOAT_EQ(config.attention.query_scale_beta, 0.1F);
  EXPECT_EQ(config.attention.query_scale_period, 8192);
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, true, false));
  EXPECT_EQ(config.experts.shared_ffn_dim, 5);
  EXPECT_EQ(config.mlp.ffn_dim, 10);
}

TEST_F(Llama4, AConfigMayNameItsLayers) {
  const ModelConfig given = ParsedConfig(
      WithField(WithField(WithField(kLlama4, "no_rope_layers", "[0, 1, 1, 1, 0]"), "moe_layers", "[0, 1]"),
                "layer_types", R"(["full_attention", "full_attention", "chunked_attention", "full_attention"])"));
  EXPECT_THAT(given.rotary.layer_index, ElementsAre(-1, 0, 0, 0));
  EXPECT_THAT(given.attention.layer_windows, ElementsAre(0, 0, 64, 0));
  EXPECT_THAT(given.experts.dense_layers, ElementsAre(false, false, true, true));
  const ModelConfig plain = ParsedConfig(WithField(
      WithField(WithField(kLlama4, "use_qk_norm", "false"), "attn_temperature_tuning", "0"), "no_rope_layers", "[]"));
  EXPECT_FALSE(plain.attention.qk_norm);
  EXPECT_FALSE(plain.attention.scales_queries(false));
  EXPECT_THAT(plain.rotary.layer_index, ElementsAre(0, 0, 0, -1));
  const ModelConfig whole = ParsedConfig(WithField(kLlama4, "attention_chunk_size", "256"));
  EXPECT_THAT(whole.attention.layer_windows, IsEmpty()) << "a context of one chunk";
  EXPECT_EQ(whole.attention.chunk(0), 0);
}

TEST_F(Llama4, ExpertsMayBeStackedByColumns) {
  for (const bool stacked : {true, false}) {
    const auto model = Load(kLlama4, Llama4Tensors(stacked));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->warnings(), IsEmpty());
    const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[1];
    const std::string stem = "model.layers.1.feed_forward.experts.";
    // Row 7 of the second expert is row 2 of its up projection.
    const float up = stacked ? ValueOf(stem + "gate_up_proj", (kLlama4Hidden + 4) * 10 + 7)
                             : ValueOf(stem + "1.up_proj.weight", 2 * kLlama4Hidden + 4);
    const float down = stacked ? ValueOf(stem + "down_proj", (kLlama4ExpertFfn + 3) * kLlama4Hidden + 1)
                               : ValueOf(stem + "1.down_proj.weight", kLlama4ExpertFfn + 3);
    EXPECT_EQ(ElementOf(layer.experts.up[1].weight, 7, 4), up) << stacked;
    EXPECT_EQ(ElementOf(layer.experts.down[1].weight, 1, 3), down) << stacked;
  }
}

TEST_F(Llama4, TheTextPartOfAMultimodalModelIsServed) {
  const auto parsed = ParseModelConfig(
      absl::StrCat(R"({"model_type": "llama4", "vision_config": {}, "text_config": )", kLlama4, "}"), "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->config.text_part);
  EXPECT_EQ(parsed->config.experts.routing.num_experts, 3);
}

// As transformers ties it.
TEST_F(Llama4, TheTextPartSaysWhetherTheHeadIsTied) {
  for (const bool tied : {false, true}) {
    const auto parsed = ParseModelConfig(
        absl::StrCat(R"({"model_type": "llama4", "tie_word_embeddings": )", tied ? "false" : "true",
                     R"(, "text_config": )", WithField(kLlama4, "tie_word_embeddings", tied ? "true" : "false"), "}"),
        "");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->config.head.tied, tied);
  }
}

const BadField kLlama4Refused[] = {
    {kLlama4, "attention_chunk_size", "72", "attention_chunk_size is 72; must be a multiple of 32"},
    {kLlama4, "attention_chunk_size", "null", "attention_chunk_size is null, but layers have chunked attention"},
    {kLlama4, "num_experts_per_tok", "2", "num_experts_per_tok is 2; must be 1 where the inputs of experts are scaled"},
    {kLlama4, "no_rope_layers", "[1, 0]", "no_rope_layers has 2 entries; num_hidden_layers is 4"},
    {kLlama4, "moe_layers", "[]", "moe_layers is empty: no layer has experts"},
    {kLlama4, "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 4"},
    {kLlama4, "layer_types", R"(["full_attention", "sliding_attention", "full_attention", "full_attention"])",
     "layer_types[1] is 'sliding_attention'; known: chunked_attention, full_attention"},
    {kLlama4, "attn_temperature_tuning", R"("on")", "attn_temperature_tuning is"},
};

TEST_F(Llama4, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kLlama4Refused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
