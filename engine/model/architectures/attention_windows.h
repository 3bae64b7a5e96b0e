// SPDX-License-Identifier: Apache-2.0
// Which layers have a sliding attention window: sliding_window and layer_types of a config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/json_fields.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// The layers that slide without layer_types: first, first + step, ...; or all but every full_every-th.
struct SlidingLayers {
  int64_t first = 0;
  int64_t step = 1;
  int64_t full_every = 0;   // 0: as first and step say
  bool full_first = false;  // of full_every layers the first is full, not the last
  bool from_last = false;   // groups of full_every layers are counted from the model's last layer
};

// sliding_window in tokens: 0 when it is null, transformers' default of 4096 when it is absent.
int64_t ParseWindow(JsonFields& fields);

// Fills config->attention.layer_windows. window: tokens, 0 for none; one that covers max_context counts as none (to
// both sides, where config is not causal). Records an error when layer_types has the wrong length, an unknown type, or
// a sliding layer without a window. REQUIRES: num_layers and max_context are set. Returns which layers slide, whatever
// the window; empty after an error.
std::vector<bool> SetWindows(JsonFields& fields, int64_t window, const SlidingLayers& sliding, ModelConfig* config);

}  // namespace dunlin::engine
