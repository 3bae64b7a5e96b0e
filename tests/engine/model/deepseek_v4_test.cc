// SPDX-License-Identifier: Apache-2.0
// DeepSeek V4: its kinds of layers by each of the fields that name them, its rotations, its pages, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model/checkpoint/integer_tables.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/model_traits.h"
#include "engine/model/spec/rank_config.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kV4 =
    R"({"model_type": "deepseek_v4", "num_hidden_layers": 4, "hidden_size": 8, "num_attention_heads": 4,
        "vocab_size": 9, "max_position_embeddings": 4096, "head_dim": 32, "q_lora_rank": 6, "qk_rope_head_dim": 8,
        "o_groups": 2, "o_lora_rank": 5, "index_n_heads": 3, "index_head_dim": 16, "index_topk": 7,
        "moe_intermediate_size": 10, "n_routed_experts": 6, "num_experts_per_tok": 2})";

const std::string kNamed = WithField(
    kV4, "layer_types",
    R"(["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention"])");

TEST(DeepseekV4, LayersAreNamedOrHaveRatiosOrTheDefault) {
  const CompressedAttentionSpec named = ParsedConfig(kNamed).attention.compressed;
  EXPECT_THAT(named.rates, ElementsAre(0, 4, 128, 0));
  EXPECT_THAT(named.chooses, ElementsAre(false, true, false, false));
  const std::string ratios = WithField(kV4, "compress_ratios", "[0, 128, 4, 4, 0]");  // and one of a predictor
  EXPECT_THAT(ParsedConfig(ratios).attention.compressed.rates, ElementsAre(0, 128, 4, 4));
  EXPECT_THAT(ParsedConfig(kV4).attention.compressed.rates, ElementsAre(128, 128, 128, 4));
  const std::string rates =
      WithField(kNamed, "compress_rates", R"({"compressed_sparse_attention": 2, "heavily_compressed_attention": 64})");
  EXPECT_THAT(ParsedConfig(rates).attention.compressed.rates, ElementsAre(0, 2, 64, 0));
}

TEST(DeepseekV4, FirstLayersChooseExpertsByToken) {
  EXPECT_THAT(ParsedConfig(kV4).experts.by_token, ElementsAre(true, true, true, false));
  EXPECT_THAT(ParsedConfig(WithField(kV4, "num_hash_layers", "1")).experts.by_token,
              ElementsAre(true, false, false, false));
  const ModelConfig named = ParsedConfig(WithField(kV4, "mlp_layer_types", R"(["moe", "hash_moe", "moe", "moe"])"));
  EXPECT_THAT(named.experts.by_token, ElementsAre(false, true, false, false));
  EXPECT_TRUE(HasSlot(named, WeightSlot::kTokenExperts, 1));
  EXPECT_FALSE(HasSlot(named, WeightSlot::kRouterCorrection, 1));
  EXPECT_TRUE(HasSlot(named, WeightSlot::kRouterCorrection, 0));
  EXPECT_THAT(named.experts.limits, Each(10.0F));
}

TEST(DeepseekV4, LayersWithEntriesRotateByTheirOwnBase) {
  const ModelConfig config = ParsedConfig(
      WithField(kNamed, "rope_scaling", R"({"type": "yarn", "factor": 2, "original_max_position_embeddings": 1024})"));
  EXPECT_THAT(config.rotary.layer_index, ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(config.rotary.dim, 8);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[1], 0.1F) << "10000^(-2 / 8)";
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[4], 1.0F);
  EXPECT_LT(config.rotary.inv_freq[7], config.rotary.inv_freq[3]);
  EXPECT_THAT(config.rotary.attention_factors, Each(1.0F));
  EXPECT_EQ(config.max_context, 2048) << "the original context times the factor";
}

// In elements of a token: sliding layers 32, with rows of entries 32 + 2 * 2 * 48 and 32 + 2 * 32; entries 12 and 4.
TEST(DeepseekV4, RowsAreKeptForAWindowAndEntriesStay) {
  const ModelConfig config = ParsedConfig(kNamed);
  const KvGroups groups = KvGroupsOf(config);
  EXPECT_EQ(groups.window, 128);
  EXPECT_GT(groups.num_full, 0);
  EXPECT_GT(groups.num_sliding, 0);
  const std::vector<KvPlace> places = KvPlacesOf(config);
  const std::vector<kernels::KvShape> shapes = KvShapesOf(config);
  ASSERT_EQ(places.size(), 8U);
  ASSERT_LE(shapes.size(), kMaxKvShapes);
  const auto shape_of = [&](size_t unit) { return shapes[static_cast<size_t>(places[unit].shape)]; };
  for (size_t layer = 0; layer < 4; ++layer) EXPECT_TRUE(groups.slides(places[layer].group));
  EXPECT_EQ(shape_of(0).index_dim, 0);
  EXPECT_EQ(shape_of(1).index_dim, 192);
  EXPECT_EQ(shape_of(2).index_dim, 64);
  EXPECT_EQ(shape_of(0).num_kv_heads, 1);
  EXPECT_FALSE(groups.slides(places[5].group));
  EXPECT_FALSE(groups.slides(places[6].group));
  EXPECT_EQ(shape_of(5).num_kv_heads, 0);
  EXPECT_EQ(shape_of(5).index_dim, 12) << "two entries of 48 in eight tokens";
  EXPECT_EQ(shape_of(6).index_dim, 4) << "one entry of 32";
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    EXPECT_EQ(KvLayoutOf(config, precision).page_bytes, KvLayoutOf(config, Precision::kFp16).page_bytes);
  }
}

// Of V4 Flash: all entries of 4 tokens in one page, and all of 128 tokens in another.
TEST(DeepseekV4, PagesThatStayAreFewAndFull) {
  std::string ratios = "[0, 0";
  for (int layer = 2; layer < 43; ++layer) ratios += layer % 2 == 0 ? ", 4" : ", 128";
  const ModelConfig config = ParsedConfig(
      R"({"model_type": "deepseek_v4", "num_hidden_layers": 43, "hidden_size": 4096, "num_attention_heads": 64,
          "vocab_size": 129280, "compress_ratios": )" +
      ratios + "]}");
  const KvGroups groups = KvGroupsOf(config);
  EXPECT_EQ(groups.num_full, 2);
  EXPECT_EQ(groups.num_sliding, 32);
  EXPECT_EQ(groups.window, 128);
  EXPECT_EQ(KvLayoutOf(config, Precision::kBf16).page_bytes, 21U * 160 * 2 * 16);
}

TEST(DeepseekV4, NarrowWindowsAreKeptForUnfinishedEntries) {
  const ModelConfig config = ParsedConfig(WithField(kNamed, "sliding_window", "3"));
  EXPECT_EQ(config.attention.kept_tokens(0), 3);
  EXPECT_EQ(config.attention.kept_tokens(1), 8) << "two groups";
  EXPECT_EQ(config.attention.kept_tokens(2), 128);
  EXPECT_EQ(config.attention.gathered_keys(4096), 3 + 32) << "all of 32 entries, or seven chosen ones";
}

TEST(DeepseekV4, AsksTheDeviceForItsParts) {
  const ModelConfig config = ParsedConfig(kNamed);
  const kernels::ModelTraits traits = ModelTraitsOf(config);
  EXPECT_TRUE(traits.compressed_keys);
  EXPECT_TRUE(traits.residual_streams);
  EXPECT_TRUE(traits.token_experts);
  EXPECT_FALSE(traits.key_selection);
  EXPECT_THAT(CheckDivisible(config, 2).message(), HasSubstr("deepseek_v4 has attention over entries"));
}

const BadField kV4Refused[] = {
    {kV4, "num_key_value_heads", "2", "num_key_value_heads is 2; limit is [1, 1]"},
    {kV4, "o_groups", "3", "o_groups is 3, which does not divide 4 heads"},
    {kV4, "head_dim", "33", "head_dim is 33; must be even"},
    {kV4, "index_head_dim", "6", "index_head_dim is 6; must be even and at least the 8 dimensions that rotate"},
    {kV4, "layer_types", R"(["full_attention", "", "", ""])", "layer_types[0] is 'full_attention'; known: sliding_"},
    {kV4, "layer_types", R"(["sliding_attention"])", "layer_types has 1 entries; num_hidden_layers is 4"},
    {kV4, "compress_ratios", "[0, 8, 4, 4]", "compress_ratios has 8; known: 0, 4, 128"},
    {kV4, "compress_rates", R"({"compressed_sparse_attention": 6})", "is 6; must be a power of two"},
    {kV4, "mlp_layer_types", R"(["dense", "moe", "moe", "moe"])",
     "mlp_layer_types[0] is 'dense'; known: hash_moe, moe"},
    {kV4, "scoring_func", R"("softmax")", "scoring_func is 'softmax'; known: sqrtsoftplus, sigmoid"},
    {kV4, "norm_topk_prob", "false", "norm_topk_prob is false"},
    {kV4, "n_shared_experts", "2", "n_shared_experts must be 1"},
    {kV4, "hc_mult", "9", "hc_mult is 9; limit is [1, 8]"},
    {kV4, "attention_bias", "true", "attention_bias is true"},
    {kV4, "rope_scaling", R"({"type": "linear", "factor": 2})", "rope_type is neither default nor yarn"},
};

TEST(DeepseekV4, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kV4Refused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
