// SPDX-License-Identifier: Apache-2.0
// One row per architecture: its model types, the parser of its config.json, the names of its weights and its forms as a
// GGUF file. A new one takes its own file, with the row and the parser, and a line in architectures.inc. Tests iterate
// over the table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/json_fields.h"
#include "engine/model/checkpoint/gguf/gguf_form.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

class GgufTensors;

struct Architecture {
  const char* name;
  std::span<const char* const> model_types;  // config.json's model_type; >= 1
  // Fills everything but architecture and the token ids, and checks every field. Records errors in `fields`.
  void (*parse_config)(JsonFields& fields, ModelConfig* config);
  CheckpointNames names;                // in a Hugging Face directory
  std::span<const GgufForm> gguf = {};  // their config has the first of model_types, unless write_fields changes it
  // model_type of multimodal configs whose text_config may be this architecture's. Of rows that share one, the first is
  // that of a text_config without a model_type.
  std::span<const char* const> multimodal_types = {};
  // Of those configs text_config says whether the head is tied; else the config itself, where it does.
  bool text_ties_head = false;
  // Of those configs text_config's model_type says nothing (MiniMax M3's published one names M2).
  bool any_text_type = false;
  // Of those configs some have the text model's fields themselves, without a text_config (Qwen 2.5 VL and GLM 4.1V as
  // published).
  bool flat_text = false;
};

// All of them, in a fixed order.
std::span<const Architecture* const> Architectures();

// The row for a config.json, by model_type, or for the text_config of a multimodal one, by the model_type in there. A
// config without model_type but with block_size is nanoGPT's. INVALID_ARGUMENT lists the known model types.
struct ConfigArchitecture {
  const Architecture* architecture;
  const nlohmann::json* text;  // text_config, owned by the config; null: the config has the text model's fields
  bool text_part = false;      // of a multimodal model
};
absl::StatusOr<ConfigArchitecture> SelectArchitecture(JsonFields& fields);

// The row for a GGUF file, by general.architecture and its tensors. INVALID_ARGUMENT lists the known names.
struct GgufArchitecture {
  const Architecture* architecture;
  const GgufForm* form;  // one of its `gguf`
};
absl::StatusOr<GgufArchitecture> SelectGgufArchitecture(const GgufTensors& tensors);

}  // namespace dunlin::engine
