// SPDX-License-Identifier: Apache-2.0
// From token ids to the first layer's rows, and what all layers read of the positions.
#pragma once

#include <cstdint>

#include "engine/layers/layer_context.h"

namespace dunlin::engine {

class Embedding {
 public:
  explicit Embedding(LayerContext* context) : context_(context) {}

  // Fills the rows of the context and the rotary tables. NormPlacement::kPost: also the input of the first layer.
  bool Run() const;

 private:
  bool Gather(const char* op, const kernels::PackedWeight& table, const int32_t* ids, bool accumulate,
              float scale) const;
  bool NormSum() const;
  bool FillRotaryTables() const;

  LayerContext* context_;
};

}  // namespace dunlin::engine
