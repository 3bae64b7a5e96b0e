// SPDX-License-Identifier: Apache-2.0
// Adapters of experts: where the matrices of each go, as modules of their own and as parameters that stack them, and
// what is refused, by name.
#include <gmock/gmock.h>

#include "tests/engine/adapters/adapter_files.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

// Three experts of 5 columns over rows of 4, in one layer of Mixtral's.
class ExpertModules : public AdapterFiles {
 protected:
  static constexpr int64_t kExperts = 3;
  static constexpr int64_t kWidth = 5;
  static constexpr int64_t kHidden = 4;
  static constexpr int64_t kRank = 2;
  static constexpr const char* kBlock = "model.layers.0.block_sparse_moe.";
  static constexpr const char* kStacks = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "target_modules": [],
      "target_parameters": ["mlp.experts.down_proj", "mlp.experts.gate_up_proj", "mlp.gate.weight"]})";

  void SetUp() override {
    const char* config = R"({"model_type": "mixtral", "hidden_size": 4, "intermediate_size": 5, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 6, "max_position_embeddings": 16,
        "num_local_experts": 3, "num_experts_per_tok": 2})";
    const std::string layer = "model.layers.0.";
    std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {6, kHidden}},
                                       {"model.norm.weight", {kHidden}},
                                       {"lm_head.weight", {6, kHidden}},
                                       {layer + "input_layernorm.weight", {kHidden}},
                                       {layer + "post_attention_layernorm.weight", {kHidden}},
                                       {layer + "self_attn.q_proj.weight", {4, kHidden}},
                                       {layer + "self_attn.k_proj.weight", {2, kHidden}},
                                       {layer + "self_attn.v_proj.weight", {2, kHidden}},
                                       {layer + "self_attn.o_proj.weight", {kHidden, 4}},
                                       {absl::StrCat(kBlock, "gate.weight"), {kExperts, kHidden}}};
    for (int expert = 0; expert < kExperts; ++expert) {
      const std::string name = absl::StrCat(kBlock, "experts.", expert, ".w");
      tensors.push_back({name + "1.weight", {kWidth, kHidden}});
      tensors.push_back({name + "2.weight", {kHidden, kWidth}});
      tensors.push_back({name + "3.weight", {kWidth, kHidden}});
    }
    auto model = Load(config, tensors);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto set = AdapterSet::Create(model_.get(), {.max_adapters = 3, .max_rank = 8});
    ASSERT_TRUE(set.ok()) << set.status();
    set_ = *std::move(set);
  }

  // All experts: the down projections, which PEFT wraps last, and inside of that the gate and up projections.
  static std::vector<TestTensor> Stacks() {
    std::vector<TestTensor> tensors = Pair("model.layers.0.mlp.experts", kExperts * kRank, kWidth, kHidden);
    Add(Pair("model.layers.0.mlp.experts.base_layer", kExperts * kRank, kHidden, 2 * kWidth), &tensors);
    Add(Pair("model.layers.0.mlp.gate", kRank, kHidden, kExperts), &tensors);
    return tensors;
  }
  static void Add(std::vector<TestTensor> more, std::vector<TestTensor>* tensors) {
    for (TestTensor& tensor : more) tensors->push_back(std::move(tensor));
  }
  std::string Refusal(const std::string& config, const std::vector<TestTensor>& tensors) {
    const auto loaded = LoadAs("tone", config, tensors);
    EXPECT_FALSE(loaded.ok());
    if (loaded.ok()) (void)set_->Unload("tone");
    return std::string(loaded.status().message());
  }
};

// lora_A has the ranks of expert e as rows e * r + i, lora_B as columns i * experts + e.
void ExpectStacked(const kernels::LowRankPair& pair, const std::string& down, const std::string& up, int64_t expert,
                   int64_t in_features) {
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t k = 0; k < in_features; ++k) {
      EXPECT_EQ(static_cast<const float*>(pair.down)[r * 32 + k], ValueOf(down, (expert * 2 + r) * in_features + k));
    }
    for (int64_t n = 0; n < pair.out_features; ++n) {
      EXPECT_EQ(static_cast<const float*>(pair.up)[r * 64 + n], ValueOf(up, n * 6 + r * 3 + expert));
    }
  }
}

TEST_F(ExpertModules, ParametersGiveEachExpertItsMatrices) {
  ASSERT_TRUE(LoadAs("tone", kStacks, Stacks()).ok());
  const AdapterLease lease = set_->Lookup("tone");
  EXPECT_EQ(lease.adapter->rank(), 2);
  EXPECT_THAT(lease.adapter->targets(), ::testing::ElementsAre("down_proj", "gate", "gate_up_proj"));
  EXPECT_EQ(lease.adapter->pairs(Projection::kExpertUp, 0).size(), 3U);
  ASSERT_EQ(lease.adapter->pairs(Projection::kRouter, 0).size(), 1U);
  EXPECT_EQ(lease.adapter->pairs(Projection::kRouter, 0)[0].out_features, kExperts);
  const std::string inner = "model.layers.0.mlp.experts.base_layer";
  const std::string outer = "model.layers.0.mlp.experts";
  for (int32_t expert = 0; expert < kExperts; ++expert) {
    const std::span up = lease.adapter->expert_pairs(Projection::kExpertUp, 0, expert);
    ASSERT_EQ(up.size(), 1U);
    EXPECT_EQ(up[0].out_features, 2 * kWidth);
    EXPECT_EQ(up[0].scale, 1.5F);
    ExpectStacked(up[0], TensorName(inner, 'A'), TensorName(inner, 'B'), expert, kHidden);
    const std::span down = lease.adapter->expert_pairs(Projection::kExpertDown, 0, expert);
    ASSERT_EQ(down.size(), 1U);
    ExpectStacked(down[0], TensorName(outer, 'A'), TensorName(outer, 'B'), expert, kWidth);
  }
}

TEST_F(ExpertModules, AModuleIsOfOneExpert) {
  std::vector<TestTensor> tensors = Pair(absl::StrCat(kBlock, "experts.1.w3"), 2, kHidden, kWidth);
  Add(Pair(absl::StrCat(kBlock, "experts.1.w1"), 2, kHidden, kWidth), &tensors);
  Add(Pair(absl::StrCat(kBlock, "experts.2.w2"), 2, kWidth, kHidden), &tensors);
  ASSERT_TRUE(LoadAs("tone", kConfig, tensors).ok());
  const AdapterLease lease = set_->Lookup("tone");
  EXPECT_TRUE(lease.adapter->expert_pairs(Projection::kExpertUp, 0, 0).empty());
  EXPECT_TRUE(lease.adapter->expert_pairs(Projection::kExpertUp, 0, 2).empty());
  const std::span up = lease.adapter->expert_pairs(Projection::kExpertUp, 0, 1);
  ASSERT_EQ(up.size(), 2U);
  EXPECT_EQ(up[0].first_column, 0);
  EXPECT_EQ(up[1].first_column, kWidth);
  EXPECT_TRUE(lease.adapter->expert_pairs(Projection::kExpertDown, 0, 1).empty());
  EXPECT_EQ(lease.adapter->expert_pairs(Projection::kExpertDown, 0, 2).size(), 1U);
}

TEST_F(ExpertModules, RefusesByName) {
  const std::string experts = "model.layers.0.mlp.experts";
  EXPECT_THAT(Refusal(kStacks, Pair(experts, 7, kWidth, kHidden)),
              HasSubstr("has shape [7, 5]; 3 experts have the same rank each, at least 1"));
  EXPECT_THAT(Refusal(kStacks, Pair(experts, 9, kWidth, kHidden)),
              HasSubstr("has rank 3; adapter_config.json makes it 2"));
  EXPECT_THAT(Refusal(kStacks, Pair(experts, 6, kHidden, kHidden)), HasSubstr("the model makes it [6, 5]"));
  EXPECT_THAT(Refusal(kStacks, Pair(experts + ".base_layer.base_layer", 6, kHidden, 2 * kWidth)),
              HasSubstr("experts.base_layer.base_layer', which target_modules and target_parameters"));
  EXPECT_THAT(Refusal(kConfig, Pair(experts, 6, kHidden, 2 * kWidth)),
              HasSubstr("module 'model.layers.0.mlp.experts' is none"));
  EXPECT_THAT(Refusal(kConfig, Pair(absl::StrCat(kBlock, "experts.3.w2"), 2, kWidth, kHidden)),
              HasSubstr("experts.3.w2' is none"));
  std::vector<TestTensor> both = Stacks();
  Add(Pair(absl::StrCat(kBlock, "experts.1.w2"), 2, kWidth, kHidden), &both);
  EXPECT_THAT(Refusal(kStacks, both), HasSubstr("that another module does already"));
}

}  // namespace
}  // namespace dunlin::engine
