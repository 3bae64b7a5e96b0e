// SPDX-License-Identifier: Apache-2.0
// One row per architecture: its model types, the parser of its config.json, and the names of its weights.
// Adding one takes one file with the row and its parser, and one entry in architecture.cc; tests iterate over the
// table.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/json_fields.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/weight_slot.h"

namespace dunlin::engine {

// Which rows of a fused matrix a tensor holds. kQkvByHead: all of them, interleaved by head of K: the heads of Q
// that share the first head of K, that, and its head of V, then those of the next (GPT-NeoX, Falcon). kExperts and
// kSharedGate: of a router. kLatentAndRotary: all of WeightSlot::kKvDown, whose rotated rows are the tensor's last.
enum class FusedPart : uint8_t {
  kAll,
  kQuery,
  kKey,
  kValue,
  kGate,
  kUp,
  kQkvByHead,
  kExperts,
  kSharedGate,
  kLatentAndRotary
};

// A tensor's name and slot: `name` + `weight` and, where the config has a bias, `name` + `bias`.
struct WeightName {
  WeightSlot slot;
  FusedPart part;
  const char* name;         // '#' stands for the layer's index, '@' for the expert's or head's
  bool prefixed = true;     // one of Architecture::prefixes precedes it
  bool transposed = false;  // stored [in_features, out_features] (GPT-2's Conv1D)
  const char* weight = ".weight";
  const char* bias = ".bias";
};

// A second name that some checkpoints use: a tensor that is not found is looked up with `name` replaced by `alias`.
struct NameAlias {
  const char* name;
  const char* alias;
};

// How a checkpoint stacks the experts of a layer, where it does.
enum class ExpertLayout : uint8_t {
  kRows,         // [num_experts, out_features, in_features]
  kInterleaved,  // as InterleavedExperts
};

struct Architecture {
  const char* name;
  std::span<const char* const> model_types;  // config.json's model_type
  // Fills everything but architecture and the token ids, and checks every field. Records errors in `fields`.
  void (*parse_config)(JsonFields& fields, ModelConfig* config);
  std::span<const char* const> prefixes;  // tried in order until the embedding is found
  std::span<const WeightName> weights;
  std::span<const char* const> ignored;  // suffixes of tensor names that are buffers, not weights
  std::span<const NameAlias> aliases = {};
  ExpertLayout expert_layout = ExpertLayout::kRows;
};

// All of them, in a fixed order.
std::span<const Architecture* const> Architectures();

// The row for a config.json, by model_type. A config without model_type but with block_size is nanoGPT's.
// INVALID_ARGUMENT lists the known model types.
absl::StatusOr<const Architecture*> SelectArchitecture(JsonFields& fields);

extern const Architecture kGpt2;
extern const Architecture kNanoGpt;
extern const Architecture kLlama;
extern const Architecture kBert;
extern const Architecture kModernBert;
extern const Architecture kNomicBert;
extern const Architecture kRoberta;
extern const Architecture kGptNeoX;
extern const Architecture kPhi;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kMistral;
extern const Architecture kGemma;
extern const Architecture kGemma2;
extern const Architecture kGemma3;
extern const Architecture kGemma3Text;
extern const Architecture kPhi3;
extern const Architecture kStarcoder2;
extern const Architecture kStablelm;
extern const Architecture kGranite;
extern const Architecture kSeedOss;
extern const Architecture kErnie;
extern const Architecture kSmollm3;
extern const Architecture kCohere;
extern const Architecture kCohere2;
extern const Architecture kGlm;
extern const Architecture kGlm4;
extern const Architecture kExaone4;
extern const Architecture kOlmo2;
extern const Architecture kOlmo3;
extern const Architecture kNemotron;
extern const Architecture kFalcon;
extern const Architecture kBloom;
extern const Architecture kMixtral;
extern const Architecture kQwen2Moe;
extern const Architecture kQwen3Moe;
extern const Architecture kGraniteMoe;
extern const Architecture kGptOss;
extern const Architecture kGlm4Moe;
extern const Architecture kOlmoe;
extern const Architecture kDeepseekV2;
extern const Architecture kDeepseekV3;

}  // namespace dunlin::engine
