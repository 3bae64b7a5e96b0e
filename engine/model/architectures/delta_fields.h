// SPDX-License-Identifier: Apache-2.0
// Config fields of models whose layers are gated delta nets or attend. Errors are recorded in `fields`.
#pragma once

#include <cstdint>

#include "engine/base/json_fields.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// For fields that config.json omits.
struct DeltaDefaults {
  int64_t key_heads;
  int64_t value_heads;
  int64_t key_dim;    // of a head
  int64_t value_dim;  // of a head
};

// linear_num_key_heads and the others: the heads of the delta nets and their convolution.
void ParseDelta(JsonFields& fields, const DeltaDefaults& defaults, ModelConfig* config);

// Which layers attend: layer_types, or every full_attention_interval-th. REQUIRES: num_layers is set.
void ParseDeltaLayers(JsonFields& fields, ModelConfig* config);

}  // namespace dunlin::engine
