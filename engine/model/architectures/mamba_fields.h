// SPDX-License-Identifier: Apache-2.0
// Config fields of models with Mamba2 layers. Errors are recorded in `fields`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json_fields.h"
#include "engine/model/checkpoint/gguf/gguf_config.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// Names of fields and transformers' defaults.
struct MambaFields {
  const char* num_heads = "mamba_n_heads";
  const char* num_groups = "mamba_n_groups";
  const char* state_dim = "mamba_d_state";
  const char* taps = "mamba_d_conv";
  const char* conv_bias = "mamba_conv_bias";
  const char* bias = "mamba_proj_bias";
  // Elements of all heads; null, as a config may have it: mamba_expand * hidden_size.
  const char* width = nullptr;
  int64_t default_width = 0;  // where the config does not mention that field
  int64_t default_heads = 128;
  int64_t default_groups = 1;
  int64_t default_state_dim = 256;
};

// time_step_limit.
void ParseStepLimits(JsonFields& fields, MambaSpec* mamba);

// All of MambaSpec but the norm and the limits of the steps. head_dim: of a head, 0 where the config has none.
void ParseMamba(JsonFields& fields, const MambaFields& names, int64_t head_dim, ModelConfig* config);

// mamba_d_head ("auto" and null: their width / heads), which times the heads is their width: mamba_expand *
// hidden_size, or MambaFields::width. REQUIRES: hidden_dim is set.
int64_t MambaHeadDim(JsonFields& fields, const MambaFields& names, const ModelConfig& config);

// The kinds of the layers: layer_types or layers_block_type, in transformers 4's words or 5's, as a letter of each: M
// (Mamba2), * (attention), - (an MLP) or E (experts). Empty where the config has neither; fails on a kind that is not
// in `known`, and where num_hidden_layers is another number.
std::string ParseLayerLetters(JsonFields& fields, const char* known);

// ModelConfig::mixers of such letters. One attends.
void SetMixers(JsonFields& fields, const std::string& letters, ModelConfig* config);

// Of a GGUF file: the fields of `names` and layers_block_type, which its tensors tell. Returns the size of a head.
int64_t WriteGgufMamba(GgufConfigWriter* config, const MambaFields& names);
// The first layer that has such a tensor, "blk.#." and this; "": none.
std::string GgufTensorOfSome(const GgufConfigWriter& config, const char* name);

// The names of the weights of Granite 4, Bamba and Falcon-H1.
inline constexpr WeightName kMambaWeights[] = {
    {WeightSlot::kMambaIn, FusedPart::kAll, "layers.#.mamba.in_proj"},
    {WeightSlot::kMambaConv, FusedPart::kAll, "layers.#.mamba.conv1d"},
    {.slot = WeightSlot::kMambaConvBias, .part = FusedPart::kAll, .name = "layers.#.mamba.conv1d", .weight = ".bias"},
    {.slot = WeightSlot::kMambaRate, .part = FusedPart::kAll, .name = "layers.#.mamba.A_log", .weight = ""},
    {.slot = WeightSlot::kMambaTimeBias, .part = FusedPart::kAll, .name = "layers.#.mamba.dt_bias", .weight = ""},
    {.slot = WeightSlot::kMambaSkip, .part = FusedPart::kAll, .name = "layers.#.mamba.D", .weight = ""},
    {WeightSlot::kMambaNorm, FusedPart::kAll, "layers.#.mamba.norm"},
    {WeightSlot::kMambaOut, FusedPart::kAll, "layers.#.mamba.out_proj"},
};

}  // namespace dunlin::engine
