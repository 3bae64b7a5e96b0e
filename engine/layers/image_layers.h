// SPDX-License-Identifier: Apache-2.0
// What an encoder of images has before its layers and after them (ImageSpec).
#pragma once

#include <cstdint>

#include "engine/layers/linear.h"

namespace dunlin::engine {

// From patches to the first layer's rows: patch W^T, with a bias, plus the position and normed where the model has
// those. The rotary table, of positions in two dimensions, is the batch's.
class PatchEmbedding {
 public:
  explicit PatchEmbedding(LayerContext* context) : context_(context) {}

  // Fills the rows of the context from buffers.qkv, which has the patches: [rows.count, patch_inputs]. With
  // ImageSpec::position_side the rows have the positions.
  bool Run() const;

 private:
  LayerContext* context_;
};

// From the last layer's rows to those of a decoder's first: Down(activation(Up(Merge(Norm(rows))))), where Merge, or
// without it Up, reads patches_per_row of them at once.
class Projector {
 public:
  explicit Projector(LayerContext* context);

  // Of the rows of the context into buffers.qkv: [rows.count / patches_per_row, out_dim].
  bool Run() const;

 private:
  bool NormPatches(float* out) const;
  // Up's input, from normed patches; may use buffers.qkv.
  bool QuantizeMerged(const float* patches, int32_t num_rows) const;
  bool RunActivation(float* rows, int32_t num_rows) const;

  LayerContext* context_;
  Linear merge_;
  Linear up_;
  Linear down_;
};

}  // namespace dunlin::engine
