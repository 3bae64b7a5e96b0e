// SPDX-License-Identifier: Apache-2.0
// MiMo V2: heads by the kind of a layer, sinks of sliding layers alone, and zeros behind heads of V.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/padded_heads.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMimoHidden = 6;
constexpr const char* kMimo =
    R"({"model_type": "mimo_v2_flash", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 6, "v_head_dim": 4, "vocab_size": 9,
        "n_routed_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "partial_rotary_factor": 0.34,
        "max_position_embeddings": 256, "sliding_window_size": 20, "hybrid_layer_pattern": [0, 1, 0],
        "moe_layer_freq": [0, 0, 0]})";

std::vector<TestTensor> MimoTensors() {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kMimoHidden}},
                                     {"model.norm.weight", {kMimoHidden}},
                                     {"lm_head.weight", {9, kMimoHidden}}};
  for (int layer = 0; layer < 3; ++layer) {
    const std::string stem = absl::StrCat("model.layers.", layer, ".");
    const int64_t kv_heads = layer == 1 ? 2 : 1;
    tensors.insert(tensors.end(), {{stem + "self_attn.q_proj.weight", {24, kMimoHidden}},
                                   {stem + "self_attn.k_proj.weight", {6 * kv_heads, kMimoHidden}},
                                   {stem + "self_attn.v_proj.weight", {4 * kv_heads, kMimoHidden}},
                                   {stem + "self_attn.o_proj.weight", {kMimoHidden, 16}},
                                   {stem + "mlp.gate_proj.weight", {10, kMimoHidden}},
                                   {stem + "mlp.up_proj.weight", {10, kMimoHidden}},
                                   {stem + "mlp.down_proj.weight", {kMimoHidden, 10}},
                                   {stem + "input_layernorm.weight", {kMimoHidden}},
                                   {stem + "post_attention_layernorm.weight", {kMimoHidden}}});
    if (layer == 1) tensors.push_back({stem + "self_attn.attention_sink_bias", {4}});
  }
  return tensors;
}

class MimoV2 : public ModelLoading {};

TEST_F(MimoV2, ZerosFollowHeadsOfV) {
  const auto model = Load(kMimo, MimoTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[1];
  const std::string stem = "model.layers.1.self_attn.";
  const int64_t first = 24 + 12;  // rows of Q and of K
  EXPECT_EQ(ElementOf(layer.qkv.weight, first + 3, 2), 0.707F * ValueOf(stem + "v_proj.weight", 3 * kMimoHidden + 2));
  EXPECT_EQ(ElementOf(layer.qkv.weight, first + 4, 2), 0.0F);
  EXPECT_EQ(ElementOf(layer.qkv.weight, first + 6, 5), 0.707F * ValueOf(stem + "v_proj.weight", 4 * kMimoHidden + 5));
  EXPECT_EQ(ElementOf(layer.attention_out.weight, 2, 6), ValueOf(stem + "o_proj.weight", 2 * 16 + 4));
  EXPECT_EQ(ElementOf(layer.attention_out.weight, 2, 5), 0.0F);
  EXPECT_EQ(layer.sinks[3], ValueOf(stem + "attention_sink_bias", 3));
  EXPECT_EQ((*model)->weights(Precision::kFp32).layers[0].sinks, nullptr);
}

TEST_F(MimoV2, LayersHaveHeadsAndWindowsByTheirKind) {
  const ModelConfig config = ParsedConfig(kMimo);
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(0, 21, 0)) << "a token's own key counts";
  EXPECT_EQ(config.attention.heads(0), (HeadShape{4, 1, 6}));
  EXPECT_EQ(config.attention.heads(1), (HeadShape{4, 2, 6}));
  EXPECT_EQ(config.attention.stored_value_dim, 4);
  EXPECT_THAT(config.rotary.layer_index, ElementsAre(0, 1, 0));
  EXPECT_EQ(config.rotary.dim, 2);
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, true, true));
  const ModelConfig plain =
      ParsedConfig(WithField(WithField(WithField(WithField(kMimo, "hybrid_layer_pattern", ""), "moe_layer_freq", ""),
                                       "sliding_window_size", ""),
                             "attention_value_scale", "null"));
  EXPECT_THAT(plain.attention.layer_windows, ElementsAre(0, 129, 129));
  EXPECT_THAT(plain.experts.dense_layers, ElementsAre(true, false, false));
  EXPECT_EQ(plain.factors.value, 1.0F);
  EXPECT_EQ(ParsedConfig(WithField(kMimo, "v_head_dim", "6")).attention.stored_value_dim, 0);
}

TEST_F(MimoV2, PaddedMatricesAreReadInAnyPieces) {
  WriteModel(temp_, "{}", {{"v", {8, 3}}, {"o", {5, 8}}, {"other", {2, 2}}});
  absl::StatusOr<Directory> directory = Directory::Open(temp_.path());
  ASSERT_TRUE(directory.ok()) << directory.status();
  auto tensors = PaddedHeads::Open(*Checkpoint::Open(*directory), {{"v", false}, {"o", true}, {"absent", true}}, 4, 6);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  for (const bool columns : {false, true}) {
    const TensorInfo* tensor = (*tensors)->Find(columns ? "o" : "v");
    ASSERT_NE(tensor, nullptr);
    const int64_t width = columns ? 12 : 3;
    ASSERT_EQ(tensor->shape, (std::vector<int64_t>{columns ? 5 : 12, width}));
    std::vector<float> expected;
    for (int64_t i = 0; i < tensor->shape[0] * width; ++i) {
      const int64_t of_head = columns ? i % width : i / width;
      const int64_t stored =
          columns ? i / width * 8 + of_head / 6 * 4 + of_head % 6 : (of_head / 6 * 4 + of_head % 6) * width + i % width;
      expected.push_back(of_head % 6 < 4 ? ValueOf(tensor->name, stored) : 0.0F);
    }
    const size_t bytes = expected.size() * sizeof(float);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{40}, bytes}) {
      std::vector<float> values(expected.size(), -1.0F);
      const std::span<std::byte> out = std::as_writable_bytes(std::span(values));
      for (size_t at = 0; at < bytes; at += piece) {
        ASSERT_TRUE((*tensors)->Read(*tensor, at, out.subspan(at, std::min(piece, bytes - at))).ok());
      }
      EXPECT_EQ(values, expected) << columns << ", " << piece;
    }
  }
  EXPECT_EQ((*tensors)->List().size(), 3U);
  EXPECT_EQ((*tensors)->FileOf(*(*tensors)->Find("v")), (*tensors)->FileOf(*(*tensors)->Find("other")));
  const auto other = PaddedHeads::Open(*Checkpoint::Open(*directory), {{"o", false}}, 4, 6);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("tensor 'o' has rows that are no whole heads of 4"));
}

const BadField kMimoRefused[] = {
    {kMimo, "attention_bias", "true", "attention_bias"},
    {kMimo, "v_head_dim", "7", "v_head_dim is 7; limit is [1, 6]"},
    {kMimo, "swa_head_dim", "8", "swa_head_dim is 8; must be 6, as of full layers"},
    {kMimo, "swa_num_key_value_heads", "3", "sliding layers have 3 key-value heads, which do not divide 4 heads"},
    {kMimo, "hybrid_layer_pattern", "[1, 0]", "hybrid_layer_pattern has 2 entries; num_hidden_layers is 3"},
    {kMimo, "moe_layer_freq", "[1]", "moe_layer_freq has 1 entries; num_hidden_layers is 3"},
    {kMimo, "layer_types", R"(["full_attention", "chunked_attention", "full_attention"])",
     "layer_types[1] is 'chunked_attention'; known: full_attention, sliding_attention"},
};

TEST_F(MimoV2, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kMimoRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
