// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention with the heads' key and value matrices absorbed: a page holds one latent row of a token,
// a head's query goes through its key matrix, and its sum of latent rows through its value matrix. Scores are those of
// the keys that the matrices would make: q (W c) = (q W) c. Source: DeepSeek-V2 report, section 2.1 and appendix C.
#pragma once

#include <vector>

#include "engine/layers/indexer.h"
#include "engine/layers/latent_buffers.h"
#include "engine/layers/linear.h"

namespace dunlin::engine {

class LatentAttentionLayer {
 public:
  LatentAttentionLayer(LayerContext* context, const LayerWeights& weights);

  static bool IsIn(const ModelConfig& config, int32_t /*layer*/) { return config.attention.is_latent(); }
  // The first product that reads a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer);

  // From the input: queries, each as wide as a latent row, into the buffer qkv, and latent rows into their pages. A row
  // of qkv ends with the token's latent row: first what rotates, then the rest.
  bool StoreKv() const;
  // From the queries: the input of `next`.
  bool Run(const Linear& next) const;

 private:
  bool Query() const;
  bool RoundQuery(const Linear& query) const;
  bool NormLatent(const Columns& latent) const;
  bool AbsorbKeys() const;
  // AttentionSpec::output_gate: of each head, from the layer's input; multiplied into its sum of values.
  bool ComputeGate() const;
  bool ApplyGate() const;
  // The rank's columns of the output projection's input.
  RankPart OwnValues() const;
  bool NormRank(const char* op, const NormWeights& weights, float* rows, int32_t columns) const;
  // Each head's columns of `in` times its matrix. Strides from a head to the next.
  bool HeadProducts(const char* op, const std::vector<LinearWeights>& weights, const Columns& in,
                    int64_t in_head_stride, const Columns& out, int64_t out_head_stride) const;

  LayerContext* context_;
  const LayerWeights& layer_;
  const LatentWeights& weights_;
  const LatentAttentionSpec& shape_;
  const LatentBuffers buffers_;
  const Indexer indexer_;
};

}  // namespace dunlin::engine
