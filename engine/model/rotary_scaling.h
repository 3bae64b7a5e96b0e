// Rotary position embeddings: which scaling a config asks for, and the inverse frequencies that result.
// `dynamic` and `longrope` are refused: there a token's rotation depends on the length of its request, so that a cached
// key could be neither kept nor shared.
// Source: transformers 5.23, modeling_rope_utils.py; Peng et al. 2023 (YaRN); Llama 3.1's reference code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/model/json_fields.h"

namespace dunlin::engine {

enum class RotaryScalingKind : uint8_t { kNone, kLinear, kLlama3, kYarn };

// What a row calls the fields that stand beside the scaling, and which part of a head it rotates by default.
struct RotaryWords {
  const char* theta = "rope_theta";
  const char* partial_factor = "partial_rotary_factor";
  double default_partial_factor = 1.0;
  bool partial = false;  // whether a part of 1 may be asked for; otherwise anything but 1 is refused
};

struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::kNone;
  double theta = 10000.0;
  double partial_factor = 1.0;             // of the head's dimensions that rotate, in [0, 1]
  double factor = 1.0;                     // >= 1
  double original_max_context = 0;         // llama3 and yarn; tokens
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3; > low_freq_factor
  double beta_fast = 32.0;                 // yarn
  double beta_slow = 1.0;                  // yarn
  double mscale = 0.0;                     // yarn; 0 is "not given"
  double mscale_all_dim = 0.0;             // yarn; 0 is "not given"
  bool truncate = true;                    // yarn
  std::optional<double> attention_factor;  // yarn
};

// Reads the words and rope_scaling (transformers 4) or rope_parameters (5) of a config.json. Faults go into `fields`.
RotaryScaling ParseRotaryScaling(JsonFields& fields, const RotaryWords& words, int64_t max_context);

// [rotary_dim / 2], computed in FP32 step by step as transformers does. REQUIRES: rotary_dim even and > 0.
std::vector<float> InverseFrequencies(const RotaryScaling& scaling, int32_t rotary_dim);

// What cos and sin are multiplied by: 1 unless yarn.
float RotaryAttentionFactor(const RotaryScaling& scaling);

}  // namespace dunlin::engine
