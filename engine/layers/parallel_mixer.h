// SPDX-License-Identifier: Apache-2.0
// Attention and Mamba2 next to each other (Falcon-H1): both read the layer's normed rows, and both outputs are added to
// the residual. The sequence has keys and values of the layer in its pages and a state of it in its slot.
#pragma once

#include "engine/layers/attention.h"
#include "engine/layers/mamba_layer.h"

namespace dunlin::engine {

class ParallelMixer {
 public:
  ParallelMixer(LayerContext* context, const LayerWeights& weights)
      : context_(context), weights_(weights), mamba_(context, weights), attention_(context, weights) {}

  static bool IsIn(const ModelConfig& config, int32_t layer) { return config.mixer(layer) == MixerKind::kParallel; }
  // The first of the two products that read a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
    return Attention::InputOf(context, weights, layer);
  }

  // From the input: the attention's queries, keys and values, then Mamba2's rows go through the state.
  bool StoreKv() const;
  // Adds what Mamba2 gives, then from the queries: the input of `next`, the attention's output projection.
  bool Run(const Linear& next) const;

 private:
  LayerContext* context_;
  const LayerWeights& weights_;
  MambaLayer mamba_;
  Attention attention_;
};

}  // namespace dunlin::engine
