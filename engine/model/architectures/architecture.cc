// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/architecture.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/checkpoint/gguf/gguf_tensors.h"

namespace dunlin::engine {

#define DUNLIN_ARCHITECTURE(row) extern const Architecture row;
#include "engine/model/architectures/architectures.inc"
#undef DUNLIN_ARCHITECTURE

namespace {

constexpr uint64_t kMaxArchitectureBytes = 256;
constexpr size_t kMaxModelTypeBytes = 64;  // of a model_type in an error

#define DUNLIN_ARCHITECTURE(row) &(row),
constexpr const Architecture* kArchitectures[] = {
#include "engine/model/architectures/architectures.inc"
};
#undef DUNLIN_ARCHITECTURE

bool Lists(std::span<const char* const> types, const std::string& type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// The row for the text part of a multimodal config, among those that list `outer`.
absl::StatusOr<ConfigArchitecture> SelectText(JsonFields& fields, const std::string& outer) {
  const nlohmann::json* text = fields.Object("text_config");
  for (const Architecture* row : kArchitectures) {
    const bool flat = text == nullptr && row->flat_text && Lists(row->multimodal_types, outer);
    if (flat && fields.status().ok()) return ConfigArchitecture{row, nullptr, true};
  }
  if (text == nullptr) fields.Fail("text_config is missing");
  if (!fields.status().ok()) return fields.status();
  JsonFields inner(*text, absl::StrCat(fields.where(), ": text_config"));
  const std::string type = inner.TextOr("model_type", "");
  if (!inner.status().ok()) return inner.status();
  std::vector<std::string> known;
  for (const Architecture* row : kArchitectures) {
    if (!Lists(row->multimodal_types, outer)) continue;
    const bool named = row->any_text_type || type.empty() || Lists(row->model_types, type);
    if (named) return ConfigArchitecture{row, text, true};
    known.insert(known.end(), row->model_types.begin(), row->model_types.end());
  }
  inner.Fail(absl::StrCat("model_type is '", type.substr(0, kMaxModelTypeBytes), "'; known in a config of '", outer,
                          "': ", absl::StrJoin(known, ", ")));
  return inner.status();
}

}  // namespace

std::span<const Architecture* const> Architectures() {
  return kArchitectures;
}

absl::StatusOr<ConfigArchitecture> SelectArchitecture(JsonFields& fields) {
  const std::string name = fields.TextOr("model_type", fields.Has("block_size") ? "nanogpt" : "");
  if (!fields.status().ok()) return fields.status();
  std::vector<std::string> known;
  for (const Architecture* row : kArchitectures) {
    if (Lists(row->model_types, name)) return ConfigArchitecture{row, nullptr};
    if (Lists(row->multimodal_types, name)) return SelectText(fields, name);
    known.insert(known.end(), row->model_types.begin(), row->model_types.end());
    for (const char* type : row->multimodal_types) {
      if (std::find(known.begin(), known.end(), type) == known.end()) known.emplace_back(type);
    }
  }
  const std::string list = absl::StrJoin(known, ", ");
  fields.Fail(name.empty() ? absl::StrCat("model_type is missing; known: ", list)
                           : absl::StrCat("model_type is '", name.substr(0, kMaxModelTypeBytes), "'; known: ", list));
  return fields.status();
}

// Of forms of one name the first whose tensor the file has, or else the one that any file may have.
absl::StatusOr<GgufArchitecture> SelectGgufArchitecture(const GgufTensors& tensors) {
  GgufFields fields(tensors.first());
  const std::string name = fields.Text("general.architecture", kMaxArchitectureBytes);
  if (!fields.status().ok()) return fields.status();
  GgufArchitecture found{};
  std::vector<std::string> known;
  for (const Architecture* row : kArchitectures) {
    for (const GgufForm& form : row->gguf) {
      if (std::find(known.begin(), known.end(), form.name) == known.end()) known.push_back(form.name);
      if (name != form.name) continue;
      if (form.tensor != nullptr && tensors.Find(form.tensor) != nullptr) return GgufArchitecture{row, &form};
      if (form.tensor == nullptr) found = {row, &form};
    }
  }
  if (found.form != nullptr) return found;
  fields.Fail("general.architecture",
              absl::StrCat("is '", name.substr(0, 64), "'; known: ", absl::StrJoin(known, ", ")));
  return fields.status();
}

}  // namespace dunlin::engine
