// SPDX-License-Identifier: Apache-2.0
// Config fields that several architectures share. Errors are recorded in `fields`.
#pragma once

#include <initializer_list>
#include <vector>

#include "engine/base/json_fields.h"
#include "engine/model/architectures/rotary_scaling.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// The activation that the field `name` names in transformers' terms; an error lists the known names.
kernels::ActivationKind ParseActivation(JsonFields& fields, const char* name, const char* fallback);

// The clamped gate (GPT-OSS): its constants are part of the kernels, so that swiglu_alpha and swiglu_limit must be
// those.
void SetClampedGate(JsonFields& fields, ModelConfig* config);

// Refuses options that change the result and that no architecture supports: booleans in `names` that are true.
void RefuseUnsupported(JsonFields& fields, std::initializer_list<const char*> names);

// num_hidden_layers, hidden_size, intermediate_size and vocab_size (required where their defaults are 0), and
// context_field.
void SetSizes(JsonFields& fields, int64_t default_context, ModelConfig* config, int64_t default_ffn = 0,
              const char* context_field = "max_position_embeddings", int64_t default_vocab = 0);

// Head counts, dimensions and the scale head_dim^-1/2; `head_dim` 0 derives it from hidden_dim.
void SetHeads(JsonFields& fields, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, ModelConfig* config);

// `name`, or `other` where the config has that alone: fields have one name in published configs and another in
// transformers.
const char* EitherName(const JsonFields& fields, const char* name, const char* other);

// num_labels of an encoder whose `architectures` name a sequence classifier: of id2label, else transformers' default of
// two; cross-encoders have one. At most 4096 and hidden_dim. REQUIRES: hidden_dim is set.
void SetLabels(JsonFields& fields, ModelConfig* config);

// Rotary positions. REQUIRES: SetHeads has been called.
void SetRotary(JsonFields& fields, const RotaryFields& names, ModelConfig* config);
// The same of a scaling that has been read.
void SetRotary(JsonFields& fields, const RotaryFields& names, const RotaryScaling& scaling, ModelConfig* config);

// Queries' factor by position (Ministral 3): llama_4_scaling_beta and original_max_position_embeddings of
// rope_parameters, which must be there.
void SetQueryScale(JsonFields& fields, ModelConfig* config);

// Adds the frequencies of a rotation of `dim` dimensions, and its factor, to those of a model.
void AddFrequencies(const RotaryScaling& scaling, int32_t dim, RotarySpec* rotary);
// The same for a model whose rotations turn numbers of dimensions of their own: dim, even, > 0, <= head_dim.
void AddRotation(const RotaryScaling& scaling, int32_t dim, RotarySpec* rotary);

// Gives sliding layers a rotation of their own, `names` of the config: in transformers 4's fields (old_style) a base
// without scaling. The other layers keep that of SetRotary, which has been called.
void AddSlidingRotary(JsonFields& fields, const RotaryFields& names, bool old_style, const std::vector<bool>& sliding,
                      ModelConfig* config);

}  // namespace dunlin::engine
