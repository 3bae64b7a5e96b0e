// SPDX-License-Identifier: Apache-2.0
// Config fields of models whose layers are gated delta nets or attend. Errors are recorded in `fields`.
#pragma once

#include <cstdint>
#include <string>

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

// Letters of layers of which the last of each `interval` attends: * for it, M for a delta net.
std::string IntervalLetters(int32_t num_layers, int64_t interval);

// ModelConfig::mixers of such letters, one of each layer. One layer must attend; `names`: the fields that say which.
void SetDeltaMixers(JsonFields& fields, const std::string& letters, const char* names, ModelConfig* config);

// Which layers attend: layer_types, or every full_attention_interval-th. REQUIRES: num_layers is set.
void ParseDeltaLayers(JsonFields& fields, ModelConfig* config);

}  // namespace dunlin::engine
