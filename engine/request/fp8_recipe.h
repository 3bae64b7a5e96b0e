// SPDX-License-Identifier: Apache-2.0
// Where the scale of an FP8 GEMM input comes from: the recipes as data, and the options of one model.
// Names and options follow Transformer Engine (common/recipe: DelayedScaling, Float8CurrentScaling). Its fp8_format has
// no counterpart here: HYBRID and E4M3 differ in the format of gradients alone.
#pragma once

#include <cstdint>

#include "kernels/api/input_scaling.h"

namespace dunlin::engine {

enum class Fp8Recipe : uint8_t { kPerToken, kStatic, kCurrent, kDelayed };
inline constexpr int kNumFp8Recipes = 4;

struct Fp8RecipeTraits {
  Fp8Recipe recipe;
  const char* name;  // in configs and responses
  kernels::InputScaling scaling;
  bool deterministic;  // whether a row's bits are independent of the rows computed with it and before it
  const char* scale;   // what the scale is derived from, for messages
};

// One row per recipe; the index is the enumerator.
inline constexpr Fp8RecipeTraits kFp8RecipeTable[kNumFp8Recipes] = {
    {Fp8Recipe::kPerToken, "per_token", kernels::InputScaling::kPerRow, true, "each token's own row"},
    {Fp8Recipe::kStatic, "static", kernels::InputScaling::kGiven, true, "the model's constants"},
    {Fp8Recipe::kCurrent, "current", kernels::InputScaling::kCurrent, false, "all rows that are computed together"},
    {Fp8Recipe::kDelayed, "delayed", kernels::InputScaling::kGiven, false, "the rows of earlier steps"},
};
constexpr const Fp8RecipeTraits& Traits(Fp8Recipe recipe) {
  return kFp8RecipeTable[static_cast<int>(recipe)];
}

enum class AmaxComputeAlgo : uint8_t { kMax, kMostRecent };

// Only kDelayed reads the fields other than recipe.
struct Fp8Options {
  Fp8Recipe recipe = Fp8Recipe::kPerToken;
  int32_t amax_history_len = 16;  // steps; [1, kMaxAmaxHistory]
  AmaxComputeAlgo amax_compute_algo = AmaxComputeAlgo::kMax;
  int32_t margin = 0;  // the scale leaves room for values 2^margin times larger; [0, kMaxMargin]
};
inline constexpr int32_t kMaxAmaxHistory = 65536;
inline constexpr int32_t kMaxMargin = 64;

}  // namespace dunlin::engine
