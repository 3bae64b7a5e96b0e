// SPDX-License-Identifier: Apache-2.0
// DeepSeek V4's attention over entries of groups of tokens, and residual streams, as data. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dunlin::engine {

// Attention over a window of tokens and, in some layers, entries of groups of tokens as well (DeepSeek V4;
// kernels/api/compressed_attention.h). A token has one key of all heads, which is its value, too; the last rope_dim
// elements of queries and keys rotate, and those of what a head attends to rotate back. Queries go through the rank
// LatentAttentionSpec::query_rank and a norm without a weight of each head. The output projection is one product of
// each of some groups of heads, and then one of what these give.
struct CompressedAttentionSpec {
  int32_t rope_dim = 0;             // even; 0: the model has no such attention
  int32_t out_groups = 0;           // divides the heads
  int32_t out_rank = 0;             // elements that a group's product gives
  std::vector<int32_t> rates = {};  // [num_layers] tokens of an entry, a power of two; 0: the layer has none
  // [num_layers] entries are made of two series, and a row sees those that an indexer chooses (IndexerSpec).
  std::vector<bool> chooses = {};

  int32_t rate(int32_t layer) const { return rates.empty() ? 0 : rates[static_cast<size_t>(layer)]; }
  bool chooses_in(int32_t layer) const { return !chooses.empty() && chooses[static_cast<size_t>(layer)]; }
  int32_t series(int32_t layer) const { return chooses_in(layer) ? 2 : 1; }
  int32_t out_features() const { return out_groups * out_rank; }
};

// Several residual streams (kernels/api/residual_streams.h): all begin as the embedding, each term of a layer reads and
// writes them by weights that it computes of a row, and the head reads them by others.
struct StreamSpec {
  int32_t count = 0;  // 2 to kernels::kStreamsMax; 0: the one of other models
  int32_t iterations = 0;
  float epsilon = 0.0F;
};

}  // namespace dunlin::engine
