// SPDX-License-Identifier: Apache-2.0
// Where the rows of a checkpoint's tensor go in the matrix or vector of a slot, by FusedPart. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

struct RowRange {
  int64_t begin;  // in the slot's matrix
  int64_t count;
  int64_t source = 0;  // in the tensor
};

// The rows of the slot that a tensor of this part holds.
std::vector<RowRange> RowsOf(const ModelConfig& config, WeightSlot slot, int32_t layer, FusedPart part);
// Rows of the whole tensor: more than those of `ranges`, its RowsOf, where other slots have parts of it; fewer where
// some stand for several.
int64_t TensorRows(const ModelConfig& config, FusedPart part, const std::vector<RowRange>& ranges);

}  // namespace dunlin::engine
