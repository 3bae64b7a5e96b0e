// SPDX-License-Identifier: Apache-2.0
// A gated delta net in place of attention: the fused projection of queries, keys, values and z, a causal convolution
// over the first three, the delta rule, and a norm gated by z. Its output projection is the decoder layer's. What later
// tokens read is the sequence's state in its slot. With DeltaSpec::gate_rank decays and z have products of their own,
// with channel_decays decays alone. Source: Yang et al. 2024, "Gated Delta Networks"; Kimi Team 2025, "Kimi Linear".
#pragma once

#include "engine/layers/delta_buffers.h"
#include "engine/layers/linear.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

class DeltaLayer {
 public:
  DeltaLayer(LayerContext* context, const LayerWeights& weights);

  static bool IsIn(const ModelConfig& config, int32_t layer) { return config.mixer(layer) == MixerKind::kDelta; }
  // The first product that reads a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer);

  // From the input: every row goes through the state. The rows that are read after it stay in the buffers.
  bool StoreKv() const;
  // Of the rows that go on: the input of `next`.
  bool Run(const Linear& next) const;

 private:
  bool Gates() const;
  bool OwnGates() const;
  // DeltaSpec::channel_decays: from the layer's input.
  bool Decays() const;
  // Rows of gate_rank floats, gate_features apart, as the input of `next`.
  bool RoundRank(const Linear& next, const float* rows) const;
  bool Convolve(const StatePart& part) const;
  bool Scan(const StatePart& part) const;
  // Rows of the rank's heads, as columns of those of all.
  RankColumns OwnValues(const float* rows) const;

  LayerContext* context_;
  const LayerWeights& layer_;
  const DeltaWeights& weights_;
  const DeltaSpec& spec_;
  const DeltaBuffers buffers_;
};

}  // namespace dunlin::engine
