// SPDX-License-Identifier: Apache-2.0
// A form in which GGUF files hold an architecture: the config.json that their metadata amounts to, the names of their
// tensors, and how those differ from the tensors of a Hugging Face checkpoint. An architecture lists its own.
// Source: github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py (keys, tensor names), convert_hf_to_gguf.py.
#pragma once

#include <array>
#include <span>

#include "engine/model/checkpoint/gguf/gguf_weight_names.h"

namespace dunlin::engine {

class GgufConfigWriter;

// A metadata key, without the architecture's name, and the field of config.json that holds the same number.
struct GgufFieldName {
  const char* key;
  const char* field;
};

// The fields that most configs of transformers share, with the family's names of two of them.
constexpr std::array<GgufFieldName, 7> GgufFieldNames(const char* epsilon_key, const char* epsilon, const char* theta) {
  return {{{"block_count", "num_hidden_layers"},
           {"embedding_length", "hidden_size"},
           {"feed_forward_length", "intermediate_size"},
           {"attention.head_count", "num_attention_heads"},
           {"context_length", "max_position_embeddings"},
           {epsilon_key, epsilon},
           {"rope.freq_base", theta}}};
}
inline constexpr const char* kGgufRmsKey = "attention.layer_norm_rms_epsilon";
inline constexpr const char* kGgufNormKey = "attention.layer_norm_epsilon";
inline constexpr auto kGgufRmsFields = GgufFieldNames(kGgufRmsKey, "rms_norm_eps", "rope_theta");
inline constexpr auto kGgufNormFields = GgufFieldNames(kGgufNormKey, "layer_norm_eps", "rope_theta");

// The defaults are those of the Llama family.
struct GgufForm {
  const char* name;  // general.architecture
  std::span<const GgufFieldName> fields = kGgufRmsFields;
  std::span<const WeightName> weights = gguf_names::kGated;
  void (*write_fields)(GgufConfigWriter* config) = nullptr;  // what the family has besides `fields`
  // Of forms of one name the first whose tensor the file has is taken; null: any file.
  const char* tensor = nullptr;
  const char* partial_rotary_field = nullptr;  // the part of a head that rotates; null: all of it, or no rotation
  bool interleaved_rotation = false;           // see GgufTensors::SeparateRotationHalves
  bool offset_norms = false;                   // the offset of norm weights is in the stored weights
  bool head_dim_follows = false;               // from the hidden size: config.json has no head_dim
  bool fixed_biases = false;                   // as the config has them; else where layer 0 has tensors for them
  bool never_tied = false;                     // else the head is tied where the file has none
  bool experts = false;                        // layers may have experts
  bool no_heads = false;                       // no layer attends
  bool latent_attention = false;               // heads are those of multi-head latent attention
  bool mixed_layers = false;                   // attention.head_count_kv is 0 for layers that do not attend
  bool image_sections = false;                 // rope.dimension_sections rotate texts as a rotation without them does
  bool tiled_values = false;                   // DeltaShape::tiled_values
  bool layer_heads = false;                    // a number for each layer may stand; those of K are in write_fields
  bool narrow_values = false;                  // heads of V may be narrower: v_head_dim
  bool factors_in_config = false;              // write_fields has what rope_freqs say of the rotation
};

// Tensors that several rooms ask for.
inline constexpr const char* kGgufEmbedding = "token_embd.weight";
inline constexpr const char* kGgufHead = "output.weight";
inline constexpr const char* kGgufRotaryFactors = "rope_freqs.weight";
inline constexpr const char* kGgufShortFactors = "rope_factors_short.weight";
inline constexpr const char* kGgufLongFactors = "rope_factors_long.weight";
inline constexpr const char* kGgufRouter = "blk.0.ffn_gate_inp.weight";
inline constexpr const char* kGgufHeadRows = "blk.0.attn_kv_b.weight";
inline constexpr const char* kGgufFusedQkv = "blk.0.attn_qkv.weight";

// The names of a form's tensors.
CheckpointNames NamesOf(const GgufForm& form);

}  // namespace dunlin::engine
