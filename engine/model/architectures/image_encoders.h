// SPDX-License-Identifier: Apache-2.0
// One row per kind of image encoder that multimodal checkpoints have next to their text model: which configs have it,
// the parser of their vision_config, and the names of its weights. A new one takes its own file, with the row and the
// parser, and a line in image_encoders.cc. Tests iterate over the table.
#pragma once

#include <span>
#include <string>

#include "engine/base/json_fields.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

struct ImageEncoderForm {
  const char* name;                          // ModelConfig::architecture
  std::span<const char* const> outer_types;  // model_type of the multimodal configs; >= 1
  // Fills everything but architecture and kind, and checks every field; records errors in the reader of the object that
  // has the field. vision: of vision_config; outer: of the config itself; text: of its text model.
  void (*parse_config)(JsonFields& vision, JsonFields& outer, const ModelConfig& text, ModelConfig* config);
  // Why a model of these types is served without its images, "" where nothing is against them; null: nothing ever is.
  std::string (*why_not_served)(JsonFields& vision, JsonFields& outer) = nullptr;
  CheckpointNames names;
};

// All of them, in a fixed order.
std::span<const ImageEncoderForm* const> ImageEncoderForms();

// The row for a config of that model_type; null: it has no image encoder that is served.
const ImageEncoderForm* FindImageEncoder(const std::string& outer_type);

}  // namespace dunlin::engine
