// One row per architecture: the words that name it, how its config.json reads, and what its weights are called.
// Adding one is one file with a row's functions and one row in architecture.cc; the tests iterate over the table.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/json_fields.h"
#include "engine/model/model_config.h"
#include "engine/model/weight_slot.h"

namespace dunlin::engine {

// How a matrix is split over devices: by output features, by input features, or not at all.
enum class ShardAxis : uint8_t { kReplicated, kColumn, kRow };

// Which rows of a fused matrix a tensor holds. kQkvByHead: all of them, but in the order Q, K, V of the first head,
// then of the next (GPT-NeoX; as many K and V heads as Q heads).
enum class FusedPart : uint8_t { kAll, kQuery, kKey, kValue, kGate, kUp, kQkvByHead };

// A tensor's name and place. The weight is `name` + ".weight", the bias (where the config has one) `name` + ".bias".
struct WeightName {
  WeightSlot slot;
  FusedPart part;
  const char* name;  // '#' stands for the layer's index
  ShardAxis axis;
  bool transposed;  // stored [in_features, out_features] (GPT-2's Conv1D)
  bool prefixed;    // one of Architecture::prefixes stands before it
};

// A name that some checkpoints write otherwise: where no tensor has a name with `usual` in it, `other` is tried.
struct OtherName {
  const char* usual;
  const char* other;
};

struct Architecture {
  const char* name;
  std::span<const char* const> model_types;  // config.json's model_type
  // Fills everything but architecture and the token ids, and checks every field. Faults go into `fields`.
  void (*parse_config)(JsonFields& fields, ModelConfig* config);
  std::span<const char* const> prefixes;  // tried in order until the embedding is found
  std::span<const WeightName> weights;
  std::span<const char* const> ignored;  // endings of tensor names that are buffers, not weights
  std::span<const OtherName> other_names = {};
};

// All of them, in a fixed order.
std::span<const Architecture* const> Architectures();

// The row for a config.json: by model_type; one without model_type but with block_size is nanoGPT's.
// INVALID_ARGUMENT lists the known words.
absl::StatusOr<const Architecture*> SelectArchitecture(JsonFields& fields);

extern const Architecture kGpt2;
extern const Architecture kNanoGpt;
extern const Architecture kLlama;
extern const Architecture kBert;
extern const Architecture kRoberta;
extern const Architecture kGptNeoX;
extern const Architecture kPhi;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kMistral;
extern const Architecture kGemma2;

}  // namespace dunlin::engine
