// SPDX-License-Identifier: Apache-2.0
// Attention over KV pages: the fused QKV projection, rotation and store of K and V, and the paged attention itself. Its
// output projection is the decoder layer's.
#pragma once

#include "engine/layers/indexer.h"
#include "engine/layers/linear.h"

namespace dunlin::engine {

// Parameters that attention over pages shares with latent attention, of the running layer.
kernels::RotateAndStoreKvParams KvParamsOf(const LayerContext& context, const LayerWeights& weights);
// Without an output.
kernels::PagedAttentionParams AttentionParamsOf(const LayerContext& context, const LayerWeights& weights);

class Attention {
 public:
  Attention(LayerContext* context, const LayerWeights& weights)
      : context_(context), weights_(weights), indexer_(context, weights) {}

  // Every layer without a token mixer of another kind.
  static bool IsIn(const ModelConfig& /*config*/, int32_t /*layer*/) { return true; }
  // The product that reads a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer);

  // From the input: queries into the buffer qkv, keys and values into their pages.
  bool StoreKv() const;
  // From the queries: the input of `next`.
  bool Run(const Linear& next) const;

 private:
  bool StoreHeads() const;
  // Of a divided model with norms over all heads together.
  bool StoreJointHeads(const Linear& qkv, kernels::RotateAndStoreKvParams* heads) const;
  bool Quantize(const Linear& next, const float* heads) const;
  // AttentionSpec::output_gate: of every row, from the layer's input; multiplied into the attention's output.
  bool ComputeGate() const;
  bool ApplyGate(float* rows) const;

  LayerContext* context_;
  const LayerWeights& weights_;
  const Indexer indexer_;
};

}  // namespace dunlin::engine
