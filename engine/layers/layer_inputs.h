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
  bool FillDivided() const;
  bool Gather() const;
  // Of a divided model: into the buffer that all ranks read, or each linked rank's copy of it.
  bool GatherDivided() const;
  float TableScale() const;
  // The rank's columns.
  bool Project(const Columns& out) const;
  // The rank's rows.
  bool Normalize(const float* projected) const;

  LayerContext* context_;
};

// hidden = (hidden + PostNorm(Out(Activation(Gate(hidden)) * r))) * the layer's factor, for the rows of the layer.
class LayerInputTerm {
 public:
  LayerInputTerm(LayerContext* context, const LayerWeights& weights)
      : context_(context), weights_(weights), own_(context->config.part(context->config.layer_inputs.width)) {}

  bool Run() const;

 private:
  // What the activation reads, in buffers.mlp: [rows, 2 * own_.count], the gate first.
  bool Gate() const;
  bool CopyInputs(float* out) const;
  // From that: the input of `next`.
  bool Activate(const Linear& next) const;

  LayerContext* context_;
  const LayerWeights& weights_;
  const RankPart own_;  // of the width
};

}  // namespace dunlin::engine
