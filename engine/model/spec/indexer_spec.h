// SPDX-License-Identifier: Apache-2.0
// What a layer of sparse attention chooses keys by, as data. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/api/key_selection.h"

namespace dunlin::engine {

// The indexer of sparse attention (kernels/api/key_selection.h): a row attends to the top_k keys whose scores are the
// largest. Without blocks, of latent attention (DeepSeek V3.2), its queries are linear in the query's latent row, its
// keys and weights in the layer's input. By blocks (MiniMax M3) each KV head has a query, which is linear in the
// layer's input, too, and normed as the keys are, and there are no weights.
struct IndexerSpec {
  int32_t num_heads = 0;
  int32_t dim = 0;          // of a query and of the key that all heads share; the first that rotate are the heads' own
  int32_t top_k = 0;        // keys; 0: the model has no indexer
  bool neighbours = false;  // neighbouring elements rotate together, not those half of the rotated ones apart
  std::vector<bool> shared = {};  // [num_layers] layers that see the keys of the last one with an indexer; empty: none
  std::vector<bool> dense = {};   // [num_layers] layers that see every key; empty: none
  kernels::KeyBlocks blocks = {};

  bool by_blocks() const { return blocks.tokens > 0; }
  bool is_shared(int32_t layer) const { return !shared.empty() && shared[static_cast<size_t>(layer)]; }
  bool is_dense(int32_t layer) const { return !dense.empty() && dense[static_cast<size_t>(layer)]; }
  int32_t query_features() const { return num_heads * dim; }
  // Choices of a row.
  int32_t num_choices() const { return by_blocks() ? num_heads : 1; }
};

}  // namespace dunlin::engine
