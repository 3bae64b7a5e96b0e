// SPDX-License-Identifier: Apache-2.0
// From token ids to the first layer's rows, and what all layers read of the positions.
#pragma once

#include <cstdint>

#include "engine/layers/layer_context.h"

namespace dunlin::engine {

// A factor of embeddings, rounded as transformers rounds it: to the dtype of the model's weights, BF16 for FP8.
float RoundedScale(float scale, Precision precision);

class Embedding {
 public:
  explicit Embedding(LayerContext* context) : context_(context) {}

  // Fills the rows of the context and the rotary tables. NormPlacement::kPost: also the input of the first layer.
  bool Run() const;

 private:
  bool Gather(const char* op, const kernels::PackedWeight& table, const int32_t* ids, bool accumulate,
              float scale) const;
  // Word embeddings of the rank's part of the vocabulary, then rank 0 adds the rest.
  bool RunDivided(float scale) const;
  bool AddTypesAndPositions() const;
  // A divided model's, once the words are there: rank 0 adds, all of them norm.
  bool FinishDivided() const;
  bool NormSum() const;
  bool FillRotaryTables() const;

  LayerContext* context_;
};

}  // namespace dunlin::engine
