// What the architectures' config parsers share.
#pragma once

#include <initializer_list>

#include "engine/model/json_fields.h"
#include "engine/model/model_config.h"
#include "engine/model/rotary_scaling.h"

namespace dunlin::engine {

// The activation that Hugging Face's word in `name` means; faults list the known words.
kernels::ActivationKind ParseActivation(JsonFields& fields, const char* name, const char* fallback);

// Faults for options that change the result and that no row supports: any boolean in `names` that is true.
void RefuseUnsupported(JsonFields& fields, std::initializer_list<const char*> names);

// num_hidden_layers, hidden_size, intermediate_size, vocab_size and max_position_embeddings, the words of most configs.
void SetSizes(JsonFields& fields, int64_t default_context, ModelConfig* config);

// Head counts, dimensions and attention_scale = head_dim^-1/2; `head_dim` 0 derives it from hidden_dim.
void SetHeads(JsonFields& fields, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, ModelConfig* config);

// Rotary positions by the row's words. REQUIRES: SetHeads has been called.
void SetRotary(JsonFields& fields, const RotaryWords& words, ModelConfig* config);

}  // namespace dunlin::engine
