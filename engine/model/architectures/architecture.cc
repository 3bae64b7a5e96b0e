// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/architecture.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr const Architecture* kArchitectures[] = {
    &kGpt2,       &kNanoGpt,    &kLlama,      &kGptNeoX,  &kPhi,        &kQwen2,      &kQwen3,   &kMistral, &kGemma,
    &kGemma2,     &kGemma3,     &kGemma3Text, &kPhi3,     &kStarcoder2, &kStablelm,   &kGranite, &kSeedOss, &kErnie,
    &kSmollm3,    &kCohere,     &kCohere2,    &kGlm,      &kGlm4,       &kExaone4,    &kOlmo2,   &kOlmo3,   &kNemotron,
    &kFalcon,     &kBloom,      &kMixtral,    &kQwen2Moe, &kQwen3Moe,   &kGraniteMoe, &kGptOss,  &kGlm4Moe, &kOlmoe,
    &kDeepseekV2, &kDeepseekV3, &kBert,       &kRoberta,  &kModernBert, &kNomicBert};

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

}  // namespace dunlin::engine
