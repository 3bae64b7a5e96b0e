// SPDX-License-Identifier: Apache-2.0
// Apertus: the four numbers of its activation, and the names of its norms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/model/load/model_directory.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kApertusHidden = 8;
constexpr const char* kApertusConfig =
    R"({"model_type": "apertus", "hidden_size": 8, "intermediate_size": 10, "num_hidden_layers": 1, "vocab_size": 9,
        "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_act": "xielu",
        "rope_parameters": {"rope_type": "default", "rope_theta": 12000000.0}})";

std::vector<TestTensor> ApertusTensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {9, kApertusHidden}},
          {"model.norm.weight", {kApertusHidden}},
          {"lm_head.weight", {9, kApertusHidden}},
          {layer + "attention_layernorm.weight", {kApertusHidden}},
          {layer + "feedforward_layernorm.weight", {kApertusHidden}},
          {layer + "self_attn.q_proj.weight", {8, kApertusHidden}},
          {layer + "self_attn.k_proj.weight", {4, kApertusHidden}},
          {layer + "self_attn.v_proj.weight", {4, kApertusHidden}},
          {layer + "self_attn.o_proj.weight", {kApertusHidden, 8}},
          {layer + "self_attn.q_norm.weight", {4}},
          {layer + "self_attn.k_norm.weight", {4}},
          {layer + "mlp.up_proj.weight", {10, kApertusHidden}},
          {layer + "mlp.down_proj.weight", {kApertusHidden, 10}},
          {layer + "mlp.act_fn.alpha_p", {1}},
          {layer + "mlp.act_fn.alpha_n", {1}},
          {layer + "mlp.act_fn.beta", {}},
          {layer + "mlp.act_fn.eps", {}}};
}

class Apertus : public ModelLoading {};

TEST_F(Apertus, TheActivationsNumbersAreOfTheLayer) {
  const auto model = Load(kApertusConfig, ApertusTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[0];
  const std::string stem = "model.layers.0.mlp.act_fn.";
  const auto softplus = [](float x) { return std::log1p(std::exp(static_cast<double>(x))); };
  EXPECT_NEAR(layer.mlp_curve[0], softplus(ValueOf(stem + "alpha_p", 0)), 1e-6);
  EXPECT_NEAR(layer.mlp_curve[1], softplus(ValueOf(stem + "alpha_n", 0)), 1e-6);
  EXPECT_EQ(layer.mlp_curve[2], ValueOf(stem + "beta", 0));
  EXPECT_EQ(layer.mlp_curve[3], ValueOf(stem + "eps", 0));
  EXPECT_EQ(layer.attention_norm.weight[2], ValueOf("model.layers.0.attention_layernorm.weight", 2));
  EXPECT_EQ(layer.mlp_norm.weight[2], ValueOf("model.layers.0.feedforward_layernorm.weight", 2));
}

TEST_F(Apertus, WhatIsNotServedIsRefusedByName) {
  const auto message = [](const char* name, const char* value) {
    return std::string(ParseModelConfig(WithField(kApertusConfig, name, value), "").status().message());
  };
  EXPECT_THAT(message("hidden_act", R"("silu")"), HasSubstr("hidden_act is 'silu'; known: xielu"));
  EXPECT_THAT(message("rope_parameters", "null"), HasSubstr("rope_parameters is missing"));
  const ModelConfig config = ParsedConfig(kApertusConfig);
  EXPECT_TRUE(config.mlp.learned_curve);
  EXPECT_FALSE(config.mlp.gated);
  EXPECT_TRUE(config.attention.qk_norm);
  EXPECT_EQ(config.norm.epsilon, 1e-5F);
}

}  // namespace
}  // namespace dunlin::engine
