// SPDX-License-Identifier: Apache-2.0
// From token ids to the first layer's rows, and what all layers read of the positions.
#pragma once

#include <cstdint>

#include "engine/layers/layer_context.h"

namespace dunlin::engine {

// A factor of embeddings, rounded as transformers rounds it: to the dtype of the model's weights, BF16 for FP8.
float RoundedScale(float scale, Precision precision);

// Whether prompts of the model may have rows in place of embeddings (Request::rows): nothing but a factor, which is not
// theirs, comes between an embedding and the first layer, and nothing else is read by token. num_ranks: of the model.
bool TakesRows(const ModelConfig& config, int32_t num_ranks);

class Embedding {
 public:
  explicit Embedding(LayerContext* context) : context_(context) {}

  // Fills the rows of the context and the rotary tables. NormPlacement::kPost: also the input of the first layer.
  bool Run() const;

 private:
  bool Gather(const char* op, const kernels::PackedWeight& table, const int32_t* ids, bool accumulate,
              float scale) const;
  // Puts the rows of prompts in place of what was gathered for their tokens.
  bool CopyPromptRows() const;
  // Word embeddings of the rank's part of the vocabulary, then rank 0 adds the rest.
  bool RunDivided(float scale) const;
  bool AddTypesAndPositions() const;
  // A divided model's, once the words are there: rank 0 adds, all of them norm.
  bool FinishDivided() const;
  bool NormSum() const;
  bool FillRotaryTables() const;
  // Puts the rotations of images, by row and column, in place of those by position.
  bool CopyRotations() const;

  LayerContext* context_;
};

}  // namespace dunlin::engine
