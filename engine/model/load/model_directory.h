// SPDX-License-Identifier: Apache-2.0
// config.json, generation_config.json and hf_quant_config.json, read into a ModelConfig and a Quantization.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/quantization.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// sentence-transformers' list of what follows the transformer; a directory that has it is an encoder's.
inline constexpr const char* kPoolingModulesFile = "modules.json";

struct ParsedModel {
  ModelConfig config;
  CheckpointNames names;
  Quantization quantization;
  std::vector<std::string> warnings;  // for the log; none prevents loading
  bool gguf = false;                  // of a GGUF file
  bool separates_rotation = false;    // of one whose rows of Q and K are read by SeparateRotationHalves
};

// All texts but the first may be empty. INVALID_ARGUMENT names file, field, value and limit.
absl::StatusOr<ParsedModel> ParseModelConfig(std::string_view config_text, std::string_view generation_text,
                                             std::string_view hf_quant_text = "");

// Reads config.json and, where they exist, the other two (each <= kMaxConfigBytes).
absl::StatusOr<ParsedModel> ReadModelConfig(const TextFiles& files);

// The encoder of images that a multimodal config has next to the text model (architectures/image_encoders.h); none
// where it has none that is served. Errors: as ParseModelConfig, of the text model, too; FAILED_PRECONDITION, with the
// reason, where the model is served without its images.
absl::StatusOr<std::optional<ParsedModel>> ParseImageEncoderConfig(std::string_view config_text,
                                                                   std::string_view hf_quant_text = "");

// The same of the files of a directory, or of what stands for them of a GGUF file, which has none. Reads texts alone.
absl::StatusOr<std::optional<ParsedModel>> ReadImageEncoderConfig(const TextFiles& files);

}  // namespace dunlin::engine
