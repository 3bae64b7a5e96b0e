// SPDX-License-Identifier: Apache-2.0
// A PEFT adapter's adapter_config.json, as far as a forward pass depends on it. Pure.
// Source: LoraConfig and get_pattern_key of the package peft, 0.21.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace dunlin::engine {

inline constexpr double kMaxAdapterAlpha = 1e6;  // of either sign; a scale is then finite in FP32

struct AdapterConfig {
  int32_t rank = 0;                             // of modules that no rank_pattern names
  double alpha = 0.0;                           // as that, of alpha_pattern
  bool rank_stabilized = false;                 // use_rslora: the scale is alpha / sqrt(rank)
  std::map<std::string, int64_t> rank_pattern;  // by module path, or its last components
  std::map<std::string, double> alpha_pattern;  // as that
  std::vector<std::string> target_modules;      // paths or last components; empty: an expression, or all-linear
  std::vector<std::string> target_parameters;   // as those: "mlp.experts.gate_up_proj"

  int32_t RankOf(std::string_view module) const;
  double AlphaOf(std::string_view module) const;
  // Whether target_modules may name the module.
  bool Targets(std::string_view module) const;
  // The parameters of a module that target_parameters names, in the order in which PEFT wraps the module for them: that
  // in which transformers' experts have them, the down projection last. Without a path those of experts alone.
  std::vector<std::string> ParametersOf(std::string_view module) const;
};

// INVALID_ARGUMENT names field, value and limit: also for what is not served (use_dora, modules_to_save, a bias other
// than "none", trainable tokens and what changes the base's own weights).
absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text);

}  // namespace dunlin::engine
