// SPDX-License-Identifier: Apache-2.0
// The multipliers of the Granite family.
#pragma once

#include "engine/base/json_fields.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// embedding_multiplier, attention_multiplier, residual_multiplier and logits_scaling, each 1 by default.
void ParseGraniteMultipliers(JsonFields& fields, ModelConfig* config);

}  // namespace dunlin::engine
