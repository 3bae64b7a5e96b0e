// SPDX-License-Identifier: Apache-2.0
#include "engine/model/sampling_defaults.h"

#include <nlohmann/json.hpp>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kFile = "generation_config.json";

}  // namespace

absl::StatusOr<SamplingParams> ReadSamplingDefaults(const std::string& path) {
  SamplingParams defaults;
  const absl::StatusOr<Directory> directory = Directory::Open(path);
  if (!directory.ok()) return directory.status();
  if (!directory->Has(kFile)) return defaults;
  const absl::StatusOr<std::string> text = directory->ReadFile(kFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> object = ParseJsonObject(*text, kFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kFile);
  const auto number = [&](const char* name, double min, double max, float fallback) {
    return static_cast<float>(fields.NumberOr(name, min, max, fallback));
  };
  defaults.temperature = number("temperature", 0, 100, defaults.temperature);
  defaults.top_k = static_cast<int32_t>(fields.IntOr("top_k", 0, INT32_MAX, defaults.top_k));
  defaults.top_p = number("top_p", 1e-6, 1, defaults.top_p);
  defaults.min_p = number("min_p", 0, 1, defaults.min_p);
  defaults.repetition_penalty = number("repetition_penalty", 1e-3, 10, defaults.repetition_penalty);
  if (!fields.status().ok()) return fields.status();
  return defaults;
}

}  // namespace dunlin::engine
