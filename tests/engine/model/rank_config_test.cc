// SPDX-License-Identifier: Apache-2.0
// The division of models among ranks: every row of every weight has its rank, and what is not divided is refused.
#include "engine/model/spec/rank_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

// Llama with experts in its second layer, and windows, sinks and a gate that no such model has.
ModelConfig DividedConfig(int32_t heads, int32_t kv_heads) {
  ModelConfig config;
  config.architecture = "llama";
  config.num_layers = 2;
  config.hidden_dim = 130;
  config.vocab_size = 517;
  config.max_context = 64;
  config.attention.num_heads = heads;
  config.attention.num_kv_heads = kv_heads;
  config.attention.head_dim = 6;
  config.attention.sinks = config.attention.qkv_bias = config.attention.output_gate = true;
  config.mlp.ffn_dim = 91;
  config.mlp.gated = true;
  config.experts.routing.num_experts = 3;
  config.experts.routing.num_chosen = 2;
  config.experts.ffn_dim = 37;
  config.experts.shared_ffn_dim = 21;
  config.experts.dense_layers = {true, false};
  return config;
}

struct Division {
  int32_t heads;
  int32_t kv_heads;
  int32_t num_ranks;
};
void PrintTo(const Division& division, std::ostream* out) {
  *out << division.heads << " heads, " << division.kv_heads << " of K and V, " << division.num_ranks << " ranks";
}

class RankDivision : public ::testing::TestWithParam<Division> {};

// Rows of Q, of gate and up, of the vocabulary: once. Rows of K and V: at least once. What is not divided: by all.
TEST_P(RankDivision, GivesEveryRowToARank) {
  const Division& division = GetParam();
  const ModelConfig config = DividedConfig(division.heads, division.kv_heads);
  ASSERT_TRUE(CheckDivisible(config, division.num_ranks).ok());
  for (const WeightSlotRow& slot : kWeightSlotTable) {
    for (int32_t layer = 0; layer < config.num_layers; ++layer) {
      if (!HasSlot(config, slot.slot, layer)) continue;
      const SlotShape whole = ShapeOf(config, slot.slot, layer);
      std::vector<int> owners(static_cast<size_t>(whole.out_features), 0);
      for (int32_t rank = 0; rank < division.num_ranks; ++rank) {
        const ModelConfig part = RankConfig(config, rank, division.num_ranks);
        const SlotShape shape = ShapeOf(part, slot.slot, layer);
        EXPECT_EQ(shape.in_features, whole.in_features) << slot.name;  // no sum is cut
        int64_t target = 0;
        for (const RankRows& rows : RankRowsOf(part, slot.slot, layer)) {
          EXPECT_EQ(rows.target, target) << slot.name;
          target += rows.count;
          for (int64_t row = rows.begin; row < rows.begin + rows.count; ++row) ++owners.at(static_cast<size_t>(row));
        }
        EXPECT_EQ(target, shape.out_features) << slot.name << " of rank " << rank;
        EXPECT_GT(target, 0) << slot.name << " of rank " << rank;
      }
      const int64_t shared_from =
          slot.slot == WeightSlot::kQkv ? int64_t{division.heads} * config.attention.head_dim : whole.out_features;
      const bool everybody = owners[0] == division.num_ranks && division.num_ranks > 1;
      for (size_t row = 0; row < owners.size(); ++row) {
        const bool once = static_cast<int64_t>(row) < shared_from && !everybody;
        EXPECT_GE(owners[row], 1) << slot.name << " row " << row;
        if (once) {
          EXPECT_EQ(owners[row], 1) << slot.name << " row " << row;
        } else if (everybody) {
          EXPECT_EQ(owners[row], division.num_ranks) << slot.name << " row " << row;
        }
      }
    }
  }
}

// The heads of Q of a rank are groups, or parts of one group, of the heads of K and V that it has.
TEST_P(RankDivision, HeadsOfQueriesReadThoseOfTheirRank) {
  const Division& division = GetParam();
  const int32_t group = division.heads / division.kv_heads;
  int32_t next = 0;
  for (int32_t rank = 0; rank < division.num_ranks; ++rank) {
    const RankHeads heads = HeadsOf({division.heads, division.kv_heads, 6}, rank, division.num_ranks);
    EXPECT_EQ(heads.query.first, next);
    next += heads.query.count;
    ASSERT_EQ(heads.query.count % heads.kv.count, 0);
    for (int32_t head = 0; head < heads.query.count; ++head) {
      const int32_t reads = heads.kv.first + head / (heads.query.count / heads.kv.count);
      EXPECT_EQ(reads, (heads.query.first + head) / group) << "head " << head << " of rank " << rank;
    }
  }
  EXPECT_EQ(next, division.heads);
}

INSTANTIATE_TEST_SUITE_P(Heads, RankDivision,
                         ::testing::Values(Division{4, 4, 1}, Division{4, 4, 2}, Division{4, 4, 4}, Division{3, 3, 2},
                                           Division{9, 3, 2}, Division{9, 3, 3}, Division{6, 2, 4}, Division{8, 2, 8},
                                           Division{6, 1, 4}, Division{64, 8, 4}, Division{32, 8, 16}));

TEST(RankConfig, RefusesWhatIsNotDivided) {
  const auto refusal = [](const ModelConfig& config, int32_t num_ranks) {
    const absl::Status status = CheckDivisible(config, num_ranks);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(DividedConfig(4, 1), 8), HasSubstr("models[].parallel.tensor is 8, but llama has 4 heads"));
  EXPECT_THAT(refusal(DividedConfig(6, 3), 4), HasSubstr("3 heads of keys and values"));
  ModelConfig config = DividedConfig(4, 4);
  config.mlp.ffn_dim = 3;
  EXPECT_THAT(refusal(config, 4), HasSubstr("a dimension of 3"));
  config = DividedConfig(4, 4);
  config.kind = ModelKind::kEncoder;
  EXPECT_THAT(refusal(config, 2), HasSubstr("an encoder's layers"));
  config = DividedConfig(4, 4);
  config.mixers = {MixerKind::kAttention, MixerKind::kMamba};
  EXPECT_THAT(refusal(config, 2), HasSubstr("recurrent layers"));
  config = DividedConfig(4, 4);
  config.attention.latent.kv_rank = 8;
  EXPECT_THAT(refusal(config, 2), HasSubstr("latent attention"));
  config = DividedConfig(4, 4);
  config.attention.qk_norm = config.attention.qk_norm_joint = true;
  EXPECT_THAT(refusal(config, 2), HasSubstr("one norm over the heads"));
  config = DividedConfig(4, 4);
  config.attention.layer_heads = {HeadShape{4, 4, 6}, HeadShape{4, 2, 6}};
  EXPECT_THAT(refusal(config, 2), HasSubstr("heads of several shapes"));
  config = DividedConfig(4, 4);
  config.layer_inputs.width = 2;
  EXPECT_THAT(refusal(config, 2), HasSubstr("per-layer embeddings"));
  config = DividedConfig(4, 4);
  config.experts.beside_mlp = true;
  EXPECT_THAT(refusal(config, 2), HasSubstr("experts in addition"));
  config = DividedConfig(4, 4);
  config.experts.latent_dim = 2;
  EXPECT_THAT(refusal(config, 2), HasSubstr("experts behind a projection"));
  config = DividedConfig(4, 4);
  config.num_predictors = 1;
  EXPECT_THAT(refusal(config, 2), HasSubstr("models[].speculation.draft is \"mtp\""));
  EXPECT_TRUE(CheckDivisible(config, 1).ok());
}

TEST(RankConfig, CutsWhatBelongsToHeads) {
  ModelConfig config = DividedConfig(4, 2);
  config.attention.alibi_slopes = {0, 1, 2, 3};
  config.attention.key_bias = {0, 0, 1, 1, 2, 2, 3, 3};
  const ModelConfig second = RankConfig(config, 1, 2);
  EXPECT_THAT(second.attention.alibi_slopes, ::testing::ElementsAre(2, 3));
  EXPECT_THAT(second.attention.key_bias, ::testing::ElementsAre(2, 2, 3, 3));
  EXPECT_EQ(second.undivided().attention.num_heads, 4);
  EXPECT_EQ(RankConfig(config, 0, 1).num_ranks, 1);
}

TEST(RankPart, PartsOfLongDimensionsBeginOnCacheLines) {
  for (const int32_t total : {3, 64, 130, 2048, 50257, 128256}) {
    for (const int32_t num_ranks : {1, 2, 3, 4, 8}) {
      if (total < num_ranks) continue;
      int32_t next = 0;
      for (int32_t rank = 0; rank < num_ranks; ++rank) {
        const RankPart part = PartOf(total, rank, num_ranks);
        EXPECT_EQ(part.first, next);
        EXPECT_GT(part.count, 0);
        EXPECT_TRUE(total / num_ranks < 64 || part.first % 16 == 0) << part.first;
        next += part.count;
      }
      EXPECT_EQ(next, total);
    }
  }
}

}  // namespace
}  // namespace dunlin::engine
