// SPDX-License-Identifier: Apache-2.0
// DeepSeek V3.2 and GLM 5: which layers have an indexer, its weights, and the keys that a page holds for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/spec/attention_shape.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSparseHidden = 6;
constexpr const char* kV32 =
    R"({"model_type": "deepseek_v32", "num_hidden_layers": 2, "hidden_size": 6, "intermediate_size": 10,
        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 9, "max_position_embeddings": 64,
        "q_lora_rank": 3, "kv_lora_rank": 5, "qk_nope_head_dim": 3, "qk_rope_head_dim": 4, "v_head_dim": 2,
        "n_routed_experts": 16, "first_k_dense_replace": 2, "index_n_heads": 3, "index_head_dim": 6,
        "index_topk": 7})";
const std::string kGlm5 =
    WithField(WithField(kV32, "model_type", R"("glm_moe_dsa")"), "indexer_types", R"(["full", "shared"])");

std::vector<TestTensor> SparseTensors(const std::vector<int>& indexers) {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kSparseHidden}},
                                     {"model.norm.weight", {kSparseHidden}},
                                     {"lm_head.weight", {9, kSparseHidden}}};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string stem = absl::StrCat("model.layers.", layer, ".");
    tensors.insert(tensors.end(), {{stem + "input_layernorm.weight", {kSparseHidden}},
                                   {stem + "post_attention_layernorm.weight", {kSparseHidden}},
                                   {stem + "mlp.gate_proj.weight", {10, kSparseHidden}},
                                   {stem + "mlp.up_proj.weight", {10, kSparseHidden}},
                                   {stem + "mlp.down_proj.weight", {kSparseHidden, 10}},
                                   {stem + "self_attn.q_a_proj.weight", {3, kSparseHidden}},
                                   {stem + "self_attn.q_a_layernorm.weight", {3}},
                                   {stem + "self_attn.q_b_proj.weight", {14, 3}},
                                   {stem + "self_attn.kv_a_proj_with_mqa.weight", {9, kSparseHidden}},
                                   {stem + "self_attn.kv_a_layernorm.weight", {5}},
                                   {stem + "self_attn.kv_b_proj.weight", {10, 5}},
                                   {stem + "self_attn.o_proj.weight", {kSparseHidden, 4}}});
  }
  for (const int layer : indexers) {
    const std::string stem = absl::StrCat("model.layers.", layer, ".self_attn.indexer.");
    tensors.insert(tensors.end(), {{stem + "wq_b.weight", {18, 3}},
                                   {stem + "wk.weight", {6, kSparseHidden}},
                                   {stem + "k_norm.weight", {6}},
                                   {stem + "k_norm.bias", {6}},
                                   {stem + "weights_proj.weight", {3, kSparseHidden}}});
  }
  return tensors;
}

class SparseAttention : public ModelLoading {};

TEST_F(SparseAttention, AnIndexerHasWeightsOfItsOwn) {
  const auto model = Load(kV32, SparseTensors({0, 1}), {Precision::kFp32, Precision::kFp8});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const IndexerWeights& weights = (*model)->weights(Precision::kFp32).layers[1].indexer;
  const std::string stem = "model.layers.1.self_attn.indexer.";
  EXPECT_EQ(ElementOf(weights.query.weight, 17, 2), ValueOf(stem + "wq_b.weight", 17 * 3 + 2));
  EXPECT_EQ(ElementOf(weights.key.weight, 5, 1), ValueOf(stem + "wk.weight", 5 * kSparseHidden + 1));
  EXPECT_EQ(ElementOf(weights.weights.weight, 2, 3), ValueOf(stem + "weights_proj.weight", 2 * kSparseHidden + 3));
  EXPECT_EQ(weights.key_norm.weight[4], ValueOf(stem + "k_norm.weight", 4));
  EXPECT_EQ(weights.key_norm.bias[5], ValueOf(stem + "k_norm.bias", 5));
  EXPECT_EQ((*model)->weights(Precision::kFp8).layers[1].indexer.query.weight.precision, Precision::kBf16);
}

TEST_F(SparseAttention, LayersThatShareAChoiceHaveNoIndexer) {
  const auto model = Load(kGlm5, SparseTensors({0}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->weights(Precision::kFp32).layers[1].indexer.query.weight.data, nullptr);
  EXPECT_TRUE((*model)->config().attention.indexer.neighbours);
}

TEST_F(SparseAttention, SharedLayersAreNamedCountedOrInAPattern) {
  const std::string four = WithField(WithField(kGlm5, "indexer_types", ""), "num_hidden_layers", "6");
  EXPECT_THAT(ParsedConfig(four).attention.indexer.shared, ElementsAre(false, false, false, false, false, false));
  const std::string counted = WithField(four, "index_topk_freq", "2");
  EXPECT_THAT(ParsedConfig(counted).attention.indexer.shared, ElementsAre(false, false, true, false, true, false));
  const std::string pattern = WithField(four, "index_topk_pattern", R"("FSSFSF")");
  EXPECT_THAT(ParsedConfig(pattern).attention.indexer.shared, ElementsAre(false, true, true, false, true, false));
}

TEST_F(SparseAttention, APageHoldsIndexKeysAfterTheLatentRows) {
  const ModelConfig config = ParsedConfig(kV32);
  const kernels::KvShape shape = KvShapeOf(config);
  EXPECT_EQ(shape.index_dim, 6);
  const kernels::KvLayout layout = KvLayoutOf(config, Precision::kBf16, false);
  EXPECT_EQ(layout.layer_bytes, (10U + 6U) * 2 * 16) << "nine numbers, padded to pairs, and six";
  EXPECT_EQ(layout.page_bytes, KvLayoutOf(config, Precision::kFp32, false).page_bytes);
}

const BadField kSparseRefused[] = {
    {kV32, "index_head_dim", "5", "index_head_dim is 5; must be even and at least qk_rope_head_dim, 4"},
    {kV32, "index_head_dim", "2", "index_head_dim is 2; must be even and at least qk_rope_head_dim, 4"},
    {kV32, "index_head_dim", "1024", "index_head_dim is 1024; limit is [2, 512]"},
    {kV32, "index_topk", "0", "index_topk is 0; limit is [1, "},
    {kV32, "q_lora_rank", "null", "q_lora_rank is null"},
    {kGlm5.c_str(), "indexer_types", R"(["full"])", "indexer_types has 1 entries; num_hidden_layers is 2"},
    {kGlm5.c_str(), "indexer_types", R"(["full", "half"])", "indexer_types[1] is 'half'; known: full, shared"},
    {kGlm5.c_str(), "indexer_types", R"(["shared", "full"])", "the first layer has no indexer"},
};

TEST_F(SparseAttention, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kSparseRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
