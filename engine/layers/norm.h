// SPDX-License-Identifier: Apache-2.0
// A norm over the hidden dimension, of the model's kind.
#pragma once

#include <cstdint>

#include "engine/layers/linear.h"

namespace dunlin::engine {

// The rows that a norm reads.
struct NormRows {
  const float* in;        // [*, hidden_dim]
  const int32_t* picked;  // [count] or null for rows 0, 1, ...
  int32_t count;
};
inline NormRows RowsOf(const LayerContext& context) {
  return {context.rows.hidden, nullptr, context.rows.count};
}

class Norm {
 public:
  Norm(LayerContext* context, const NormWeights& weights) : context_(context), weights_(weights) {}

  // Writes the input of `next`. NormPlacement::kPost: normalises the rows of the running layer, which `rows` then are,
  // in place, too; next may then be null, and nothing else is written.
  bool Run(const char* op, const Linear* next, const NormRows& rows) const;
  // out = norm(hidden) for the rows of the running layer, in FP32, without an input of a linear operation. out may be
  // hidden.
  bool Run(const char* op, float* out) const;
  // hidden = norm(hidden), as AddToResidual changes it.
  bool RunInPlace(const char* op) const;
  // hidden = (hidden + norm(term)) * factor, for the rows of the running layer. factor: [1] in device memory, or null.
  // Of a divided model, whose ranks have completed `term`, each changes some of the rows; then they meet.
  bool AddToResidual(const char* op, float* term, const float* factor) const;

  // Without input and output.
  kernels::NormParams Params(int32_t num_rows) const;

 private:
  LayerContext* context_;
  const NormWeights& weights_;
};

// Gives `linear`, which reads the same normed rows as a product before it, its input: anew where it takes another
// format than that one.
bool NormAgainFor(LayerContext* context, const NormWeights& weights, const Linear& linear);

}  // namespace dunlin::engine
