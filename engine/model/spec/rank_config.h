// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism: what each rank of a divided model has. Every matrix is divided by its output features, so that
// each output is the whole sum that an undivided model computes, in the same order: the bits of a response do not
// depend on the number of ranks, and no group of quantised weights is cut. A rank has some heads of Q with those of K
// and V that they read, heads or channels of recurrent layers with their states, columns of gate and up, of what layers
// add to the residual stream, of per-layer embeddings, and rows of the vocabulary. Norms, routers, latent rows and
// position tables are every rank's. Pure.
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

// Heads [first, first + count), and as many again each `stride` further: num_runs times.
struct HeadRuns {
  int32_t first;
  int32_t count;
  int32_t num_runs = 1;
  int32_t stride = 0;
};
// The heads of keys and values of a rank's gated delta nets; tiled values come in runs. REQUIRES: CheckDivisible.
struct RankDeltaHeads {
  RankPart key;
  HeadRuns value;
};
RankDeltaHeads DeltaHeadsOf(const kernels::DeltaShape& whole, int32_t rank, int32_t num_ranks);
// The heads of a rank's Mamba2 layers, with the groups that they read as `kv`. REQUIRES: CheckDivisible.
RankHeads MambaHeadsOf(const kernels::SsmShape& whole, int32_t rank, int32_t num_ranks);
// Whether ranks have parts of one group, whose norm reads all of it. config: RankConfig's.
bool SharesMambaNorm(const ModelConfig& config);

// FAILED_PRECONDITION, with the heads or the dimension that are too few.
absl::Status CheckDivisible(const ModelConfig& config, int32_t num_ranks);

// The model as layers of a rank see it: ModelConfig::undivided is `config`. Of one rank `config` itself.
// REQUIRES: CheckDivisible(config, num_ranks), 0 <= rank < num_ranks.
ModelConfig RankConfig(const ModelConfig& config, int32_t rank, int32_t num_ranks);

// What a rank has, of a RankConfig: what `dunlin inspect` and GetModel tell. 0 where the model has no such part.
struct RankShare {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t recurrent_heads = 0;
  int32_t channels = 0;  // of short convolutions
  int32_t ffn_dim = 0;
  int32_t expert_ffn_dim = 0;
  int32_t hidden_columns = 0;
  int32_t vocab_rows = 0;
};
RankShare ShareOf(const ModelConfig& config);

// Rows [begin, begin + count) of a slot's undivided matrix or vector are rows [target, ...) of a rank's.
struct RankRows {
  int64_t begin;
  int64_t count;
  int64_t target;
};
// In ascending order; of convolutions as checkpoints have them, [channels, taps]. config: RankConfig's.
std::vector<RankRows> RankRowsOf(const ModelConfig& config, WeightSlot slot, int32_t layer);
// Of these, the ones within the undivided rows [first, first + count); `begin` counts from `first`. None of a head that
// is another rank's.
std::vector<RankRows> RankRowsIn(const ModelConfig& config, const WeightPlace& place, int64_t first, int64_t count);
// Where the rank has such a weight: heads count from its first.
WeightPlace PlaceInRank(const ModelConfig& config, const WeightPlace& place);

}  // namespace dunlin::engine
