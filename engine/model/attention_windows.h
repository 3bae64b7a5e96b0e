// Which layers see a sliding window: sliding_window and layer_types of a config.json.
#pragma once

#include <cstdint>

#include "engine/model/json_fields.h"
#include "engine/model/model_config.h"

namespace dunlin::engine {

// Without layer_types, layers first, first + step, ... slide.
struct SlidingLayers {
  int64_t first = 0;
  int64_t step = 1;
};

// sliding_window: tokens; 0 when it is null, transformers' 4096 when it is not there.
int64_t ParseWindow(JsonFields& fields);

// Fills config->layer_windows. window: tokens, 0 for none. A fault for layer_types of another length than the layers,
// with an unknown word, or sliding without a window. A window that no position can leave counts as none. REQUIRES:
// num_layers and max_context are set.
void SetWindows(JsonFields& fields, int64_t window, const SlidingLayers& sliding, ModelConfig* config);

}  // namespace dunlin::engine
