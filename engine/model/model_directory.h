// config.json and generation_config.json, read into a ModelConfig.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/architecture.h"
#include "engine/model/model_config.h"

namespace dunlin::engine {

struct ParsedModel {
  const Architecture* architecture = nullptr;
  ModelConfig config;
  std::vector<std::string> warnings;  // worth a log line each; the model loads all the same
};

// Parses the two texts; `generation_text` may be empty. INVALID_ARGUMENT names file, field, value and limit.
absl::StatusOr<ParsedModel> ParseModelConfig(std::string_view config_text, std::string_view generation_text);

// Reads <directory>/config.json and, when it exists, generation_config.json (each <= kMaxConfigBytes).
absl::StatusOr<ParsedModel> ReadModelConfig(const Directory& directory);

}  // namespace dunlin::engine
