// SPDX-License-Identifier: Apache-2.0
// A gated short convolution in place of attention: y = Out(C * conv(B * x)), where B, C and x are one projection of the
// layer's input. Its output projection is the decoder layer's. What later tokens read are the last rows of B * x, in
// the sequence's slot. Source: transformers 5.24, models/lfm2.
#pragma once

#include "engine/layers/linear.h"

namespace dunlin::engine {

class ShortConv {
 public:
  ShortConv(LayerContext* context, const LayerWeights& weights) : context_(context), layer_(weights) {}

  static bool IsIn(const ModelConfig& config, int32_t layer) { return config.mixer(layer) == MixerKind::kShortConv; }
  // The first product that reads a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer);

  // From the input: every row goes through the state. The rows that are read after it stay in LayerBuffers::attention.
  bool StoreKv() const;
  // Of the rows that go on: the input of `next`.
  bool Run(const Linear& next) const;

 private:
  bool Convolve(const StatePart& part) const;

  LayerContext* context_;
  const LayerWeights& layer_;
};

}  // namespace dunlin::engine
