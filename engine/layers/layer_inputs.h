// SPDX-License-Identifier: Apache-2.0
// Per-layer embeddings: what a token's rows of them are (LayerInputSpec), and what a layer adds after its MLP.
// Observers do not see the inputs of these products, which no recipe or calibration covers.
#pragma once

#include "engine/layers/linear.h"

namespace dunlin::engine {

// Of all layers, once a pass.
class LayerInputs {
 public:
  explicit LayerInputs(LayerContext* context) : context_(context) {}

  // From the embeddings in hidden: buffers.layer_inputs of every row.
  bool Fill() const;

 private:
  bool Gather() const;
  bool Project(float* out) const;
  bool Normalize(const float* projected) const;

  LayerContext* context_;
};

// hidden = (hidden + PostNorm(Out(Activation(Gate(hidden)) * r))) * the layer's factor, for the rows of the layer.
class LayerInputTerm {
 public:
  LayerInputTerm(LayerContext* context, const LayerWeights& weights) : context_(context), weights_(weights) {}

  bool Run() const;

 private:
  // What the activation reads, in buffers.mlp: [rows, 2 * width], the gate first.
  bool Gate() const;
  bool CopyInputs(float* out) const;
  // From that: the input of `next`.
  bool Activate(const Linear& next) const;

  LayerContext* context_;
  const LayerWeights& weights_;
};

}  // namespace dunlin::engine
