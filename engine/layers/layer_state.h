// SPDX-License-Identifier: Apache-2.0
// How a recurrent layer, of whatever kind, goes through its part of the states of a batch's sequences: the rows up to
// the positions at which a state is kept, then the others, which go on from a copy.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/layers/layer_context.h"
#include "kernels/api/recurrent.h"

namespace dunlin::engine {

// The running layer's part of the states of a StatePart's sequences, from `offset` floats of it on. REQUIRES: the layer
// is recurrent.
inline kernels::StateSlots StateOf(const LayerContext& context, const StatePart& part, int64_t offset = 0) {
  return {.pool = context.buffers.state + context.config.state_offset(context.layer) + offset,
          .slot_stride = context.config.state_floats(),
          .slots = part.slots};
}

// Makes a part's copies of what the running layer has of the states.
bool CopyStates(LayerContext* context, const StatePart& part);

// Calls run(part) for the parts in turn, each after its copies. run: computes the rows of part.spans and changes
// StateOf(part); false after a failure, with which this ends.
template <typename Function>
bool ForEachStatePart(LayerContext* context, const Function& run) {
  const auto& parts = context->inputs.state_parts;
  return std::all_of(parts.begin(), parts.end(),
                     [&](const StatePart& part) { return CopyStates(context, part) && run(part); });
}

}  // namespace dunlin::engine
