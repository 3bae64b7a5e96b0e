// SPDX-License-Identifier: Apache-2.0
// One row per GGUF architecture (general.architecture): the config.json that its metadata amounts to, the names of its
// tensors, and how its tensors differ from those of a Hugging Face checkpoint.
// Source: github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py (keys, tensor names), convert_hf_to_gguf.py.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/checkpoint/gguf/gguf_tensors.h"

namespace dunlin::engine {

class GgufConfigWriter;

// A metadata key, without the architecture's name, and the field of config.json that holds the same number.
struct GgufFieldName {
  const char* key;
  const char* field;
};

struct GgufArchitecture {
  const char* name;        // general.architecture
  const char* model_type;  // of config.json
  std::span<const GgufFieldName> fields;
  Architecture weights;                                      // names only: no model types, no parser
  void (*write_fields)(GgufConfigWriter* config) = nullptr;  // what the family has beside `fields`
  // Of rows of one name the first whose tensor the file has is taken; null: any file.
  const char* tensor = nullptr;
  const char* partial_rotary_field = nullptr;  // the part of a head that rotates; null: all of it, or no rotation
  bool interleaved_rotation = false;           // see GgufTensors::SeparateRotationHalves
  bool offset_norms = false;                   // ModelConfig::norm_weight_offset is in the stored weights
  bool head_dim_follows = false;               // from the hidden size: config.json has no head_dim
  bool fixed_biases = false;                   // as the config has them; else where layer 0 has tensors for them
  bool experts = false;                        // layers may have experts
  bool latent_attention = false;               // heads are those of multi-head latent attention
};

// The row for a file, by general.architecture and its tensors. INVALID_ARGUMENT lists the known names.
absl::StatusOr<const GgufArchitecture*> SelectGgufArchitecture(const GgufTensors& tensors);

// The text of the config.json that the metadata amounts to, and of its generation_config.json (the ids that end a
// generation). Reads the factors of longrope, small tensors, where the file has them. INVALID_ARGUMENT names the key or
// the tensor, its value and the limit: a missing or malformed key, experts in a family without, heads whose keys and
// values differ in size, a rotation that is not supported, a window pattern of another length than the layers.
struct GgufConfigTexts {
  std::string config;
  std::string generation;
};
absl::StatusOr<GgufConfigTexts> WriteGgufConfig(const GgufArchitecture& architecture, const GgufTensors& tensors);

// Names shared by the rows and the config.
inline constexpr const char* kGgufEmbedding = "token_embd.weight";
inline constexpr const char* kGgufHead = "output.weight";
inline constexpr const char* kGgufRotaryFactors = "rope_freqs.weight";
inline constexpr const char* kGgufShortFactors = "rope_factors_short.weight";
inline constexpr const char* kGgufLongFactors = "rope_factors_long.weight";
inline constexpr const char* kGgufRouter = "blk.0.ffn_gate_inp.weight";
inline constexpr const char* kGgufHeadRows = "blk.0.attn_kv_b.weight";

}  // namespace dunlin::engine
