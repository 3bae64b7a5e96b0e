// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings: the scaling that a config asks for, and the resulting inverse frequencies.
// `dynamic` and `longrope` make a token's rotation depend on its request's length beyond the original context, so that
// cached keys could be neither kept nor shared: they are served up to that context, where it does not. Source:
// transformers 5.23, modeling_rope_utils.py; Peng et al. 2023 (YaRN); Llama 3.1's reference code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/json_fields.h"
#include "engine/model/spec/layer_specs.h"

namespace dunlin::engine {

// kProportional: the first pairs of a whole head rotate, as many as partial_factor says; the others stay (Gemma 4).
enum class RotaryScalingKind : uint8_t { kNone, kLinear, kLlama3, kYarn, kLongrope, kProportional };

// How the three numbers of mrope_section divide the pairs of dimensions that rotate among the axes of an image: one
// after another (Qwen 2 VL, 2.5 VL), or in turn while there are any, the rest by the sequence (Qwen 3 VL, 3.5).
enum class SectionOrder : uint8_t { kNone, kContiguous, kInterleaved };

// An architecture's names of the fields beside the scaling, and the part of a head that it rotates by default.
struct RotaryFields {
  const char* theta = "rope_theta";
  const char* partial_factor = "partial_rotary_factor";
  double default_partial_factor = 1.0;
  bool partial = false;  // whether a head may be rotated partially; if not, a factor other than 1 is refused
  double default_theta = 10000.0;
  const char* default_type = "default";
  const char* nested = nullptr;  // the member of rope_parameters with the parameters of these layers; null: itself
  bool stretched = false;        // max_position_embeddings is the context after linear scaling, not before it
  SectionOrder sections = SectionOrder::kNone;  // kNone: mrope_section is not read
};

struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::kNone;
  double theta = 10000.0;
  double partial_factor = 1.0;             // share of the head's dimensions that rotate, in [0, 1]
  double factor = 1.0;                     // >= 1, of linear, proportional, llama3 and yarn
  double original_max_context = 0;         // llama3, yarn and longrope; tokens
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3; > low_freq_factor
  double beta_fast = 32.0;                 // yarn
  double beta_slow = 1.0;                  // yarn
  double mscale = 0.0;                     // yarn; 0 is "not given"
  double mscale_all_dim = 0.0;             // yarn; 0 is "not given"
  bool truncate = true;                    // yarn
  std::optional<double> attention_factor;  // yarn and longrope
  std::vector<double> short_factors;       // longrope: of each pair of dimensions, up to the original context
  std::vector<int64_t> sections;           // mrope_section: by sequence, row and column; empty: not given
  int64_t max_context = 0;                 // tokens that this scaling serves, <= kMaxContextTokens
};

// Reads the named fields and rope_scaling (transformers 4) or rope_parameters (5). Records errors in `fields`.
// max_context: max_position_embeddings, which linear scaling multiplies; YaRN multiplies its original context. llama3's
// and longrope's configs have the longer context there already. Source of the rule: vLLM 0.11, ModelConfig's
// _get_and_verify_max_len.
RotaryScaling ParseRotaryScaling(JsonFields& fields, const RotaryFields& names, int64_t max_context);

// [rotary_dim / 2], rounded to FP32 after each step as transformers does. REQUIRES: rotary_dim even and > 0.
std::vector<float> InverseFrequencies(const RotaryScaling& scaling, int32_t rotary_dim);

// [rotary_dim / 2], or empty where there are no sections. Records errors in `fields`.
std::vector<RotationAxis> RotationAxes(JsonFields& fields, const RotaryScaling& scaling, SectionOrder order,
                                       int32_t rotary_dim);

// The factor of cos and sin: 1 except for yarn and longrope.
float RotaryAttentionFactor(const RotaryScaling& scaling);

}  // namespace dunlin::engine
