// SPDX-License-Identifier: Apache-2.0
// The indexer of sparse attention: of every token an index key in its page, and of every row the keys that it attends
// to. A layer that shares another's choice has no weights and reads what that one left. Source: DeepSeek-V3.2 report,
// section 2.1; by blocks of keys: transformers 5.24, models/minimax_m3_vl.
#pragma once

#include "engine/layers/indexer_buffers.h"
#include "engine/layers/linear.h"

namespace dunlin::engine {

class Indexer {
 public:
  Indexer(LayerContext* context, const LayerWeights& weights);

  // In the order of the attention's own products; each does nothing where the layer chooses no keys.
  // Keys and weights or, by blocks, keys and queries, from the layer's input.
  bool Inputs() const;
  // Queries, from the query's latent rows after their norm, [count, query_rank].
  bool Queries(const float* latent_rows) const;
  // Stores the keys, and chooses where a row of the batch sees more than top_k keys.
  bool Select() const;

  // What the attention of the running rows leaves out; no bits where no row sees more than top_k keys.
  kernels::KeySelection Selection() const;

 private:
  bool chooses() const { return config_.has_indexer(context_->layer); }
  // The normed product of the layer's input with a matrix, of `heads` heads of a row.
  bool NormedInput(const char* op, const LinearWeights& weights, const NormWeights& norm, int32_t heads,
                   float* out) const;

  LayerContext* context_;
  const LayerWeights& layer_;
  const IndexerWeights& weights_;
  const AttentionSpec& config_;
  const IndexerBuffers buffers_;
};

}  // namespace dunlin::engine
