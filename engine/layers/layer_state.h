// SPDX-License-Identifier: Apache-2.0
// The states of a batch's sequences in the running layer.
#pragma once

#include <cstdint>

#include "engine/layers/layer_context.h"
#include "kernels/api/recurrent.h"

namespace dunlin::engine {

// The running layer's part of each sequence's slot, from `offset` floats of it on. REQUIRES: the layer is recurrent.
inline kernels::StateSlots StateOf(const LayerContext& context, int64_t offset = 0) {
  return {.pool = context.buffers.state + context.config.state_offset(context.layer) + offset,
          .slot_stride = context.config.state_floats(),
          .slots = context.inputs.state_slots};
}

}  // namespace dunlin::engine
