// SPDX-License-Identifier: Apache-2.0
// Configs of AFMoE, ERNIE 4.5 MoE and Hunyuan: what their experts and layers do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

constexpr const char* kAfmoeConfig =
    R"({"model_type": "afmoe", "hidden_size": 16, "intermediate_size": 4, "num_hidden_layers": 4,
        "num_attention_heads": 2, "head_dim": 4, "vocab_size": 9, "num_experts": 4, "num_experts_per_tok": 2,
        "num_shared_experts": 2, "moe_intermediate_size": 5, "sliding_window": 8, "route_scale": 2.5})";

constexpr const char* kErnieMoeConfig =
    R"({"model_type": "ernie4_5_moe", "hidden_size": 16, "intermediate_size": 4, "num_hidden_layers": 4,
        "num_attention_heads": 2, "vocab_size": 9, "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 3,
        "moe_intermediate_size": 5, "moe_layer_start_index": 1, "moe_layer_end_index": 2})";

constexpr const char* kHunyuanMoeConfig =
    R"({"model_type": "hunyuan_v1_moe", "hidden_size": 16, "intermediate_size": 6, "num_hidden_layers": 2,
        "num_attention_heads": 2, "head_dim": 4, "vocab_size": 9, "num_experts": 4, "moe_topk": [2, 2],
        "rope_scaling": {"type": "dynamic", "alpha": 16.0, "factor": 1.0}, "rope_theta": 10000.0})";

ModelConfig Parsed(const std::string& text) {
  const auto parsed = ParseModelConfig(text, "");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->config : ModelConfig();
}

TEST(ExpertFamilies, AfmoesFullLayersHaveNoPositions) {
  const ModelConfig config = Parsed(kAfmoeConfig);
  EXPECT_THAT(config.rotary.layer_index, ElementsAre(0, 0, 0, -1));
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(8, 8, 8, 0));
  EXPECT_TRUE(config.attention.output_gate && config.attention.qk_norm);
  EXPECT_EQ(config.norm.placement, NormPlacement::kPreAndPost);
  EXPECT_EQ(config.experts.shared_ffn_dim, 10);
  EXPECT_EQ(config.experts.routing.scoring, kernels::ExpertScoring::kSigmoid);
  EXPECT_EQ(config.experts.routing.scale, 2.5F);
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, false, false));
  EXPECT_EQ(config.embedding.scale, 1.0F);
  EXPECT_EQ(Parsed(WithField(kAfmoeConfig, "mup_enabled", "true")).embedding.scale, 4.0F);
}

TEST(ExpertFamilies, ErniesExpertsAreInARangeOfLayers) {
  const ModelConfig config = Parsed(kErnieMoeConfig);
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, false, true));
  EXPECT_EQ(config.experts.routing.scoring, kernels::ExpertScoring::kSoftmax);
  EXPECT_TRUE(config.experts.routing.normalized && config.experts.router_correction);
  EXPECT_EQ(config.experts.shared_ffn_dim, 15);
  EXPECT_TRUE(config.rotary.interleaved);
  EXPECT_EQ(Parsed(WithField(kErnieMoeConfig, "moe_num_shared_experts", "0")).experts.shared_ffn_dim, 0);
  EXPECT_THAT(Parsed(WithField(kErnieMoeConfig, "moe_layer_interval", "2")).experts.dense_layers,
              ElementsAre(true, false, true, true));
}

// The base is 10000 * 16^(4 / 2), whatever the length.
TEST(ExpertFamilies, HunyuansNormsFollowARotationOfAStretchedBase) {
  const ModelConfig config = Parsed(kHunyuanMoeConfig);
  EXPECT_TRUE(config.attention.qk_norm && config.attention.norms_after_rotation);
  ASSERT_EQ(config.rotary.inv_freq.size(), 2U);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[1], 1.0F / 1600.0F);
  EXPECT_FLOAT_EQ(Parsed(WithField(kHunyuanMoeConfig, "rope_scaling", "null")).rotary.inv_freq[1], 0.01F);
  EXPECT_EQ(config.experts.routing.num_experts, 4);
  EXPECT_EQ(config.experts.routing.num_chosen, 2);
  EXPECT_TRUE(config.experts.routing.normalized);
  EXPECT_EQ(config.experts.ffn_dim, 6);
  EXPECT_EQ(config.experts.shared_ffn_dim, 6);
  const ModelConfig dense = Parsed(WithField(kHunyuanMoeConfig, "model_type", R"("hunyuan_v1_dense")"));
  EXPECT_FALSE(dense.has_experts());
}

const BadField kRefusedFields[] = {
    {kHunyuanMoeConfig, "moe_topk", "[1, 2]", "moe_topk differs by layer, which is not supported"},
    {kHunyuanMoeConfig, "moe_topk", "5", "moe_topk is 5; limit is [1, 4]"},
    {kHunyuanMoeConfig, "num_experts", "2000", "num_experts is 2000; limit is [1, 1024]"},
    {kAfmoeConfig, "sliding_window", "0", "sliding_window is 0; limit is [1, "},
    {kAfmoeConfig, "score_func", R"("softmax")", "score_func is 'softmax'; known: sigmoid"},
    {kErnieMoeConfig, "use_bias", "true", "use_bias is true, which is not supported"},
    {kErnieMoeConfig, "moe_k", "5", "moe_k is 5; limit is [1, 4]"},
};

TEST(ExpertFamilies, BadFieldsAreNamedWithValueAndLimit) {
  for (const BadField& bad : kRefusedFields) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
