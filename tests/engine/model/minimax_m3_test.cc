// SPDX-License-Identifier: Apache-2.0
// MiniMax M3: its indexer by blocks of keys, from published configs and transformers', and what is refused of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/model/load/model_directory.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/model_traits.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kM3Published =
    R"({"model_type": "minimax_m3_vl_text", "num_hidden_layers": 3, "hidden_size": 16, "intermediate_size": 6,
        "dense_intermediate_size": 10, "shared_intermediate_size": 7, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "rotary_dim": 4, "rope_theta": 5000000, "vocab_size": 9,
        "max_position_embeddings": 256, "hidden_act": "swigluoai", "swiglu_alpha": 1.702, "swiglu_limit": 7.0,
        "num_local_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_layer_freq": [0, 1, 1],
        "use_gemma_norm": true, "qk_norm_type": "per_head", "scoring_func": "sigmoid", "routed_scaling_factor": 2.0,
        "sparse_attention_config": {"use_sparse_attention": true, "sparse_index_dim": 6, "sparse_num_index_heads": 2,
                                    "sparse_topk_blocks": 3, "sparse_block_size": 32, "sparse_score_type": "max",
                                    "sparse_init_block": 0, "sparse_local_block": 1,
                                    "sparse_attention_freq": [0, 1, 1]}})";
constexpr const char* kM3Written =
    R"({"model_type": "minimax_m3_vl_text", "num_hidden_layers": 3, "hidden_size": 16, "intermediate_size": 6,
        "dense_intermediate_size": 10, "shared_intermediate_size": 7, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "rotary_dim": 64, "vocab_size": 9, "max_position_embeddings": 256,
        "hidden_act": "silu", "num_local_experts": 4, "num_experts_per_tok": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000000, "partial_rotary_factor": 0.5},
        "mlp_layer_types": ["dense", "sparse", "sparse"], "index_n_heads": 2, "index_head_dim": 6,
        "index_block_size": 32, "index_topk_blocks": 3, "index_local_blocks": 1,
        "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"]})";

TEST(MinimaxM3, PublishedConfigsAreThoseOfTransformers) {
  for (const char* text : {kM3Published, kM3Written}) {
    const ModelConfig config = ParsedConfig(text);
    const IndexerSpec& indexer = config.attention.indexer;
    EXPECT_THAT(indexer.dense, ElementsAre(true, false, false));
    EXPECT_EQ(indexer.top_k, 96);
    EXPECT_EQ(indexer.blocks.tokens, 32);
    EXPECT_EQ(indexer.num_heads, 2);
    EXPECT_FALSE(config.attention.has_indexer(0) || config.attention.selects(0));
    EXPECT_TRUE(config.attention.has_indexer(1) && config.attention.selects(1));
    EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, false));
    EXPECT_EQ(config.mlp.ffn_dim, 10);
    EXPECT_EQ(config.experts.ffn_dim, 6);
    EXPECT_EQ(config.experts.shared_ffn_dim, 7);
    EXPECT_EQ(config.rotary.dim, 4);
    EXPECT_EQ(config.norm.weight_offset, 1.0F);
    EXPECT_EQ(KvShapeOf(config).index_dim, 6);
    EXPECT_TRUE(ModelTraitsOf(config).block_selection);
  }
}

// The text model of the published config calls itself M2.
TEST(MinimaxM3, InnerConfigsAreReadWhateverTheirTypeIs) {
  const std::string inner = WithField(kM3Published, "model_type", R"("minimax_m2")");
  const ModelConfig config = ParsedConfig(R"({"model_type": "minimax_m3_vl", "text_config": )" + inner + "}");
  EXPECT_THAT(config.attention.indexer.dense, ElementsAre(true, false, false));
}

TEST(MinimaxM3, WithoutSparseLayersThereIsNoIndexer) {
  const ModelConfig config = ParsedConfig(WithField(kM3Written, "layer_types", ""));
  EXPECT_FALSE(config.attention.has_indexer());
  EXPECT_THAT(config.attention.indexer.dense, IsEmpty());
  EXPECT_EQ(KvShapeOf(config).index_dim, 0);
  EXPECT_FALSE(ModelTraitsOf(config).block_selection);
}

const BadField kM3Refused[] = {
    {kM3Written, "index_n_heads", "1", "index_n_heads is 1; must be num_key_value_heads, 2"},
    {kM3Written, "index_block_size", "24", "index_block_size is 24; must be a multiple of 16"},
    {kM3Written, "index_head_dim", "2", "index_head_dim is 2; must be even and at least the 4 dimensions"},
    {kM3Written, "index_local_blocks", "0", "index_local_blocks is 0; limit is [1, 3]"},
    {kM3Written, "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 3"},
    {kM3Written, "layer_types", R"(["full_attention", "sliding", "full_attention"])",
     "layer_types[1] is 'sliding'; known: full_attention, minimax_m3_sparse"},
    {kM3Written, "swiglu_limit", "6", "swiglu_limit is 6; must be 7"},
    {kM3Written, "hidden_act", R"("gelu")", "hidden_act is 'gelu'; known: silu"},
    {kM3Published, "use_gemma_norm", "false", "use_gemma_norm is false, which is not supported"},
    {kM3Published, "qk_norm_type", R"("per_layer")", "qk_norm_type is 'per_layer'; known: per_head"},
    {kM3Published, "moe_layer_freq", "[1]", "moe_layer_freq has 1 entries; num_hidden_layers is 3"},
    {kM3Published, "n_shared_experts", "2", "n_shared_experts is 2; limit is [1, 1]"},
    {kM3Published, "sparse_attention_config", R"({"sparse_score_type": "mean"})",
     "sparse_attention_config: sparse_score_type is 'mean'; known: max"},
    {kM3Published, "sparse_attention_config", R"({"sparse_init_block": 1})",
     "sparse_attention_config: sparse_init_block is 1; limit is [0, 0]"},
};

TEST(MinimaxM3, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kM3Refused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
