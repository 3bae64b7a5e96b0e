// SPDX-License-Identifier: Apache-2.0
// Phi 3.5 MoE: its router's rule, its rotation, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/model/load/model_directory.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPhimoeConfig =
    R"({"model_type": "phimoe", "hidden_size": 8, "intermediate_size": 10, "num_hidden_layers": 2, "vocab_size": 9,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 4, "attention_bias": true,
        "lm_head_bias": true, "router_jitter_noise": 0.25, "max_position_embeddings": 256, "sliding_window": 256,
        "original_max_position_embeddings": 64, "rope_theta": 10000.0,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [4.0, 8.0],
                         "short_mscale": 1.25, "long_mscale": 1.5, "original_max_position_embeddings": 64}})";

TEST(Phimoe, ConfigIsThatOfThePublishedModel) {
  const ModelConfig config = ParsedConfig(kPhimoeConfig);
  EXPECT_EQ(config.experts.routing.scoring, kernels::ExpertScoring::kSoftmaxOfNear);
  EXPECT_EQ(config.experts.routing.nearness, 0.5F);
  EXPECT_EQ(config.experts.routing.num_chosen, 2);
  EXPECT_FALSE(config.experts.routing.normalized);
  EXPECT_EQ(config.norm.kind, kernels::NormKind::kLayerNorm);
  EXPECT_TRUE(config.norm.bias);
  EXPECT_TRUE(config.attention.qkv_bias);
  EXPECT_TRUE(config.attention.out_bias);
  EXPECT_TRUE(config.head.bias);
  // Longer requests would rotate otherwise.
  EXPECT_EQ(config.max_context, 64);
  EXPECT_THAT(config.rotary.attention_factors, ElementsAre(1.25F));
  EXPECT_THAT(config.rotary.inv_freq, ElementsAre(1.0F, 0.005F));
  EXPECT_THAT(config.attention.layer_windows, IsEmpty());
}

TEST(Phimoe, WhatIsNotServedIsRefusedByName) {
  const auto message = [](const char* name, const char* value) {
    return std::string(ParseModelConfig(WithField(kPhimoeConfig, name, value), "").status().message());
  };
  EXPECT_THAT(message("num_experts_per_tok", "1"), HasSubstr("num_experts_per_tok is 1; the router's rule is of 2"));
  EXPECT_THAT(message("tie_word_embeddings", "true"), HasSubstr("lm_head_bias is true with a tied head"));
  EXPECT_THAT(message("rope_scaling", R"({"rope_type": "linear", "factor": 2.0})"),
              HasSubstr("the rotation of phimoe is default or longrope"));
  EXPECT_THAT(message("rope_scaling", R"({"rope_type": "longrope", "short_factor": [1.0, 2.0],
                                          "original_max_position_embeddings": 64})"),
              HasSubstr("short_mscale is missing"));
}

}  // namespace
}  // namespace dunlin::engine
