// SPDX-License-Identifier: Apache-2.0
// What follows the layers: a decoder's head, and an encoder's head of a sequence classifier.
#pragma once

#include <cstdint>

#include "engine/layers/linear.h"
#include "engine/layers/norm.h"

namespace dunlin::engine {

// Logits of the kept rows.
class Head {
 public:
  explicit Head(LayerContext* context) : context_(context) {}

  // Of the kept rows [first, first + count) into buffers.logits, from its row 0.
  bool Run(int32_t first, int32_t count) const;
  // The same of any rows, after the norm `final_norm`, with the matrix `head`. first_kept: the first of them among the
  // kept rows, to whose logits adapters add; or -1.
  bool Run(const NormWeights& final_norm, const LinearWeights& head, const NormRows& rows, int32_t first_kept) const;

 private:
  // Of a divided model, from the norm's output.
  bool RunDivided(const Linear& head, int32_t count, int32_t first_kept) const;

  LayerContext* context_;
};

// Out(tanh(Dense(row))) or, with classifier_norm, Out(Norm(classifier_activation(Dense(row)))).
class Classifier {
 public:
  explicit Classifier(LayerContext* context);

  // Of hidden's rows [0, num_rows), which it overwrites, into buffers.qkv: [num_rows, num_labels].
  bool Run(int32_t num_rows) const;

 private:
  // The input of out_ from what dense_ gave in hidden.
  bool RunActivation(int32_t num_rows) const;

  LayerContext* context_;
  Linear dense_;
  Linear out_;
};

}  // namespace dunlin::engine
