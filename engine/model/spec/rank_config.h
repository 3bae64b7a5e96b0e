// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism: what each rank of a divided model has. Every matrix is divided by its output features, so that
// each output is the whole sum that an undivided model computes, in the same order: the bits of a response do not
// depend on the number of ranks, and no group of quantised weights is cut. A rank has some heads of Q with those of K
// and V that they read, columns of gate and up, of what attention and MLP add to the residual stream, and rows of the
// vocabulary. Norms, routers and position tables are every rank's. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/weight_slot.h"

namespace dunlin::engine {

// The heads of a rank, out of `whole`. Ranks share a head of K and V where there are fewer of these than ranks.
struct RankHeads {
  RankPart query;
  RankPart kv;
};
// REQUIRES: CheckDivisible.
RankHeads HeadsOf(const HeadShape& whole, int32_t rank, int32_t num_ranks);

// FAILED_PRECONDITION, with the part of the model that is not divided or the dimension that is too small.
absl::Status CheckDivisible(const ModelConfig& config, int32_t num_ranks);

// The model as layers of a rank see it: ModelConfig::undivided is `config`. Of one rank `config` itself.
// REQUIRES: CheckDivisible(config, num_ranks), 0 <= rank < num_ranks.
ModelConfig RankConfig(const ModelConfig& config, int32_t rank, int32_t num_ranks);

// Rows [begin, begin + count) of a slot's undivided matrix or vector are rows [target, ...) of a rank's.
struct RankRows {
  int64_t begin;
  int64_t count;
  int64_t target;
};
// In ascending order. config: RankConfig's.
std::vector<RankRows> RankRowsOf(const ModelConfig& config, WeightSlot slot, int32_t layer);
// Of these, the ones within the undivided rows [first, first + count); `begin` counts from `first`.
std::vector<RankRows> RankRowsIn(const ModelConfig& config, const WeightPlace& place, int64_t first, int64_t count);

}  // namespace dunlin::engine
