// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/architecture.h"

#include <algorithm>
#include <cstdint>
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

#define DUNLIN_ARCHITECTURE(row) &row,
constexpr const Architecture* kArchitectures[] = {
#include "engine/model/architectures/architectures.inc"
};
#undef DUNLIN_ARCHITECTURE

}  // namespace

std::span<const Architecture* const> Architectures() {
  return kArchitectures;
}

absl::StatusOr<const Architecture*> SelectArchitecture(JsonFields& fields) {
  const std::string name = fields.TextOr("model_type", fields.Has("block_size") ? "nanogpt" : "");
  if (!fields.status().ok()) return fields.status();
  std::string known;
  for (const Architecture* row : kArchitectures) {
    for (const char* model_type : row->model_types) {
      if (name == model_type) return row;
      absl::StrAppend(&known, known.empty() ? "" : ", ", model_type);
    }
  }
  fields.Fail(name.empty() ? absl::StrCat("model_type is missing; known: ", known)
                           : absl::StrCat("model_type is '", name.substr(0, 64), "'; known: ", known));
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
