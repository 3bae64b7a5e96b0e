// SPDX-License-Identifier: Apache-2.0
// Muse Glimmer: its config, and norms that have no weights in a checkpoint, or weights of 1 + w.
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

constexpr int64_t kMuseHidden = 6;
constexpr const char* kMuse =
    R"({"model_type": "muse_glimmer_text", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 5,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 9, "sliding_window": 20,
        "max_position_embeddings": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})";

std::vector<TestTensor> MuseTensors() {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kMuseHidden}},
                                     {"model.norm.weight", {kMuseHidden}},
                                     {"lm_head.weight", {9, kMuseHidden}}};
  for (int layer = 0; layer < 5; ++layer) {
    const std::string stem = absl::StrCat("model.layers.", layer, ".");
    tensors.insert(tensors.end(), {{stem + "self_attn.q_proj.weight", {8, kMuseHidden}},
                                   {stem + "self_attn.k_proj.weight", {4, kMuseHidden}},
                                   {stem + "self_attn.v_proj.weight", {4, kMuseHidden}},
                                   {stem + "self_attn.gate_proj.weight", {8, kMuseHidden}},
                                   {stem + "self_attn.o_proj.weight", {kMuseHidden, 8}},
                                   {stem + "mlp.gate_proj.weight", {10, kMuseHidden}},
                                   {stem + "mlp.up_proj.weight", {10, kMuseHidden}},
                                   {stem + "mlp.down_proj.weight", {kMuseHidden, 10}}});
    for (const char* norm :
         {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
      tensors.push_back({absl::StrCat(stem, norm, ".weight"), {kMuseHidden}});
    }
  }
  return tensors;
}

class MuseGlimmer : public ModelLoading {};

TEST_F(MuseGlimmer, NormsWithoutWeightsTakeTheConfigsNumbers) {
  const auto model = Load(WithField(kMuse, "qk_scale_factor", "2.5"), MuseTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const PrecisionWeights& weights = (*model)->weights(Precision::kFp32);
  for (size_t i = 0; i < kMuseHidden; ++i) {
    EXPECT_EQ(weights.embedding_norm.weight[i], 1.0F);
    EXPECT_EQ(weights.layers[3].post_mlp_norm.weight[i],
              1.0F + ValueOf("model.layers.3.post_feedforward_layernorm.weight", i));
    EXPECT_FLOAT_EQ(weights.final_norm.weight[i], (*model)->config().head.scale * ValueOf("model.norm.weight", i))
        << "w, times the logits' factor";
  }
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(weights.layers[4].query_norm.weight[i], 2.5F);
    EXPECT_EQ(weights.layers[4].key_norm.weight[i], 1.0F);
  }
  EXPECT_EQ(ElementOf(weights.layers[2].attention_gate.weight, 7, 1),
            ValueOf("model.layers.2.self_attn.gate_proj.weight", 7 * kMuseHidden + 1));
}

TEST_F(MuseGlimmer, FullLayersAreCountedFromTheLastAndHaveNoPositions) {
  const ModelConfig config = ParsedConfig(kMuse);
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(0, 20, 20, 20, 0));
  EXPECT_THAT(config.rotary.layer_index, ElementsAre(-1, 0, 0, 0, -1));
  EXPECT_FLOAT_EQ(config.attention.fixed_query_norm, 3.87F);
  EXPECT_FLOAT_EQ(config.norm.post_epsilon, 1e-8F);
  EXPECT_FLOAT_EQ(config.norm.epsilon, 1e-5F);
  EXPECT_FLOAT_EQ(config.head.softcap, 20.0F);
  const ModelConfig given =
      ParsedConfig(WithField(WithField(kMuse, "layer_rope_theta", "[500000.0, 0, 500000, 0, 0]"), "layer_types",
                             R"(["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                                 "full_attention"])"));
  EXPECT_THAT(given.rotary.layer_index, ElementsAre(0, -1, 0, -1, -1));
  EXPECT_THAT(given.attention.layer_windows, ElementsAre(20, 0, 20, 0, 0));
}

const BadField kMuseRefused[] = {
    {kMuse, "layer_rope_theta", "[0, 500000]", "layer_rope_theta has 2 entries; num_hidden_layers is 5"},
    {kMuse, "layer_rope_theta", "[0, 10000, 0, 0, 0]", "layer_rope_theta[1] is 10000; must be 0 or 500000"},
    {kMuse, "qk_scale_factor", "0", "qk_scale_factor is 0; limit is"},
    {kMuse, "hidden_activation", R"("swish7")", "hidden_activation is 'swish7'"},
};

TEST_F(MuseGlimmer, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kMuseRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
