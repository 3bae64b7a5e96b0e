// SPDX-License-Identifier: Apache-2.0
// The division of models among ranks: every row of every weight has its rank, and what is not divided is refused.
#include "engine/model/spec/rank_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "engine/model/spec/attention_shape.h"

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

// Gated delta nets, short convolutions and Mamba2, with the groups of heads of a division.
ModelConfig RecurrentConfig(int32_t heads, int32_t kv_heads) {
  ModelConfig config = DividedConfig(heads, kv_heads);
  config.num_layers = 4;
  config.mixers = {MixerKind::kDelta, MixerKind::kShortConv, MixerKind::kMamba, MixerKind::kParallel};
  config.experts.dense_layers = {true, false, true, true};
  config.experts.latent_dim = 24;
  config.delta.shape = {.key_heads = kv_heads, .value_heads = heads, .key_dim = 4, .value_dim = 5};
  config.delta.conv_taps = 3;
  config.short_conv = {.channels = config.hidden_dim, .taps = 4, .bias = true};
  config.mamba.shape = {.num_heads = heads, .num_groups = kv_heads, .head_dim = 7, .state_dim = 3};
  config.mamba.conv_taps = 2;
  config.mamba.conv_bias = true;
  return config;
}

// Delta nets with decays of each channel, next to latent attention.
ModelConfig LatentConfig(int32_t heads, int32_t kv_heads) {
  ModelConfig config = DividedConfig(heads, 1);
  config.mixers = {MixerKind::kDelta, MixerKind::kAttention};
  config.attention.output_gate = config.attention.sinks = false;
  config.attention.latent = {.kv_rank = 9, .query_rank = 11, .plain_dim = 4, .rope_dim = 2, .value_dim = 5};
  config.delta.shape = {.key_heads = kv_heads, .value_heads = heads, .key_dim = 4, .value_dim = 5};
  config.delta.conv_taps = 3;
  config.delta.gate_rank = 6;
  return config;
}

// The same with decays and outputs' gates of whole matrices, and a gate of each head that attends.
ModelConfig GatedLatentConfig(int32_t heads, int32_t kv_heads) {
  ModelConfig config = LatentConfig(heads, kv_heads);
  config.attention.output_gate = config.attention.head_gate = true;
  config.delta.gate_rank = 0;
  config.delta.channel_decays = true;
  return config;
}

// Whether ranks may have copies of a row: of what several heads read.
bool MayBeShared(const ModelConfig& config, WeightSlot slot, int32_t layer, int64_t row) {
  const kernels::DeltaShape& delta = config.delta.shape;
  const kernels::SsmShape& mamba = config.mamba.shape;
  const int64_t keys = 2 * int64_t{delta.key_heads} * delta.key_dim;
  const int64_t groups = 2 * int64_t{mamba.num_groups} * mamba.state_dim;
  const auto between = [row](int64_t first, int64_t count) { return row >= first && row < first + count; };
  switch (slot) {
    case WeightSlot::kQkv:
      return row >= config.attention.query_features(layer);
    case WeightSlot::kDeltaIn:
      return row < keys;
    case WeightSlot::kDeltaConv:
      return row < keys * config.delta.conv_taps;
    case WeightSlot::kDeltaGates:
      return config.delta.gate_rank > 0 && row >= delta.value_heads;
    case WeightSlot::kMambaIn:
      return between(int64_t{2} * mamba.features(), groups);
    case WeightSlot::kMambaConv:
      return row >= int64_t{mamba.features()} * config.mamba.conv_taps;
    case WeightSlot::kMambaConvBias:
      return row >= mamba.features();
    default:
      return false;
  }
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
void ExpectEveryRowHasARank(const ModelConfig& config, const Division& division) {
  ASSERT_TRUE(CheckDivisible(config, division.num_ranks).ok()) << CheckDivisible(config, division.num_ranks);
  for (const WeightSlotRow& slot : kWeightSlotTable) {
    for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
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
      const bool everybody =
          owners[0] == division.num_ranks && division.num_ranks > 1 && !MayBeShared(config, slot.slot, layer, 0);
      for (size_t row = 0; row < owners.size(); ++row) {
        const bool once = !MayBeShared(config, slot.slot, layer, static_cast<int64_t>(row)) && !everybody;
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

TEST_P(RankDivision, GivesEveryRowToARank) {
  const Division& division = GetParam();
  ExpectEveryRowHasARank(DividedConfig(division.heads, division.kv_heads), division);
}

// A norm over all heads is every rank's.
TEST_P(RankDivision, GivesJointNormsToEveryRank) {
  const Division& division = GetParam();
  ModelConfig config = DividedConfig(division.heads, division.kv_heads);
  config.attention.qk_norm = config.attention.qk_norm_joint = true;
  ExpectEveryRowHasARank(config, division);
}

TEST_P(RankDivision, GivesEveryRowOfAPredictingLayerToARank) {
  const Division& division = GetParam();
  ModelConfig config = DividedConfig(division.heads, division.kv_heads);
  config.num_predictors = 1;
  config.experts.dense_layers = {true, false, true};
  ExpectEveryRowHasARank(config, division);
}

// Heads of two shapes, per-layer embeddings, experts next to an MLP.
ModelConfig TwoShapesConfig(int32_t heads, int32_t kv_heads) {
  ModelConfig config = DividedConfig(heads, kv_heads);
  config.attention.layer_heads = {HeadShape{heads, kv_heads, 6}, HeadShape{2 * heads, kv_heads, 4}};
  config.attention.layer_windows = {0, 16};
  config.layer_inputs = {.width = 17, .vocab_size = 600};
  config.experts.beside_mlp = true;
  config.experts.shared_ffn_dim = 0;
  config.norm.placement = NormPlacement::kPreAndPost;
  return config;
}

TEST_P(RankDivision, GivesEveryRowOfLayersThatDifferToARank) {
  const Division& division = GetParam();
  ExpectEveryRowHasARank(TwoShapesConfig(division.heads, division.kv_heads), division);
}

// A sequence's pages have one list: each rank finds a layer's keys and values in the same page.
TEST_P(RankDivision, RanksHaveLayersInTheSamePages) {
  const Division& division = GetParam();
  ModelConfig config = TwoShapesConfig(division.heads, division.kv_heads);
  config.num_layers = 6;
  config.attention.layer_heads.resize(6, HeadShape{division.heads, 1, 8});
  config.attention.layer_heads[1] = config.attention.layer_heads[0];
  config.attention.layer_windows = {0, 0, 16, 16, 16, 16};
  const std::vector<KvPlace> of_all = KvPlacesOf(config);
  for (int32_t rank = 0; rank < division.num_ranks; ++rank) {
    const ModelConfig part = RankConfig(config, rank, division.num_ranks);
    EXPECT_EQ(KvGroupsOf(part).count(), KvGroupsOf(config).count());
    const std::vector<KvPlace> places = KvPlacesOf(part);
    for (size_t layer = 0; layer < places.size(); ++layer) {
      EXPECT_EQ(places[layer].group, of_all[layer].group);
      EXPECT_EQ(places[layer].layer_in_page, of_all[layer].layer_in_page);
      const HeadShape heads = part.attention.heads(static_cast<int32_t>(layer));
      EXPECT_EQ(KvShapesOf(part)[static_cast<size_t>(places[layer].shape)].num_kv_heads, heads.num_kv_heads);
    }
  }
}

TEST_P(RankDivision, GivesEveryRowOfRecurrentLayersToARank) {
  const Division& division = GetParam();
  ExpectEveryRowHasARank(RecurrentConfig(division.heads, division.kv_heads), division);
}

TEST_P(RankDivision, GivesEveryRowOfLatentAttentionToARank) {
  const Division& division = GetParam();
  const absl::Status divides = CheckDivisible(LatentConfig(division.heads, division.kv_heads), division.num_ranks);
  EXPECT_EQ(divides.ok(), division.num_ranks <= division.heads) << divides;
  if (!divides.ok()) return;
  ExpectEveryRowHasARank(LatentConfig(division.heads, division.kv_heads), division);
  ExpectEveryRowHasARank(GatedLatentConfig(division.heads, division.kv_heads), division);
}

// Matrices of one head are those of the rank that has it.
TEST_P(RankDivision, GivesEveryHeadsMatricesToOneRank) {
  const Division& division = GetParam();
  const ModelConfig config = LatentConfig(division.heads, division.kv_heads);
  for (int32_t head = 0; head < division.heads; ++head) {
    int owners = 0;
    for (int32_t rank = 0; rank < division.num_ranks; ++rank) {
      const ModelConfig part = RankConfig(config, rank, division.num_ranks);
      const WeightPlace place{WeightSlot::kKeyUp, 1, head};
      const std::vector<RankRows> rows = RankRowsIn(part, place, 0, config.attention.latent.kv_rank);
      owners += static_cast<int>(rows.size());
      if (rows.empty()) continue;
      EXPECT_GE(PlaceInRank(part, place).index, 0);
      EXPECT_LT(PlaceInRank(part, place).index, NumWeights(part, WeightSlot::kKeyUp));
    }
    EXPECT_EQ(owners, 1) << "head " << head;
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
  config = RecurrentConfig(4, 2);
  config.delta.shape.value_heads = config.delta.shape.key_heads = 3;
  EXPECT_THAT(refusal(config, 4), HasSubstr("delta nets of 3 heads of values and 3 of keys"));
  config = RecurrentConfig(4, 2);
  config.delta.shape.tiled_values = true;
  EXPECT_THAT(refusal(config, 4), HasSubstr("4 tiled heads of values and 2 of keys; limit is as many ranks as these"));
  config = RecurrentConfig(4, 4);
  config.mamba.shape.num_heads = config.mamba.shape.num_groups = 3;
  EXPECT_THAT(refusal(config, 4), HasSubstr("Mamba2 layers of 3 heads in 3 groups"));
  config = DividedConfig(4, 4);
  config.attention.layer_heads = {HeadShape{4, 4, 6}, HeadShape{4, 3, 6}};
  EXPECT_THAT(refusal(config, 4), HasSubstr("4 heads that read 3 heads of keys and values"));
  config = DividedConfig(4, 4);
  config.layer_inputs = {.width = 3, .vocab_size = 600};
  EXPECT_THAT(refusal(config, 4), HasSubstr("a dimension of 3"));
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

// Tiled heads of values come in a run for each round over the heads of keys.
TEST(RankConfig, TakesTiledValuesInRuns) {
  ModelConfig config = RecurrentConfig(6, 3);
  config.delta.shape.tiled_values = true;
  const RankDeltaHeads heads = DeltaHeadsOf(config.delta.shape, 1, 2);
  EXPECT_EQ(heads.key.first, 1);
  EXPECT_EQ(heads.key.count, 2);
  EXPECT_EQ(heads.value.first, 1);
  EXPECT_EQ(heads.value.count, 2);
  EXPECT_EQ(heads.value.num_runs, 2);
  EXPECT_EQ(heads.value.stride, 3);
  ExpectEveryRowHasARank(config, {6, 3, 2});
}

TEST(RankConfig, TellsWhatARankHas) {
  const RankShare share = ShareOf(RankConfig(RecurrentConfig(9, 3), 1, 3));
  EXPECT_EQ(share.heads, 3);
  EXPECT_EQ(share.kv_heads, 1);
  EXPECT_EQ(share.recurrent_heads, 3);
  EXPECT_EQ(share.channels, PartOf(130, 1, 3).count);
  EXPECT_EQ(share.hidden_columns, PartOf(130, 1, 3).count);
  EXPECT_EQ(share.vocab_rows, PartOf(517, 1, 3).count);
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
