// SPDX-License-Identifier: Apache-2.0
// The routing rules of the families, over numbers of experts that are no multiple of a vector.
#pragma once

#include "kernels/api/experts.h"

namespace dunlin::kernels {

struct RuleCase {
  const char* name;
  ExpertRouting rule;
  bool corrected;
};
inline constexpr RuleCase kRules[] = {
    {"mixtral", {.num_experts = 8, .num_chosen = 2, .normalized = true}, false},
    {"qwen2_moe", {.num_experts = 60, .num_chosen = 4}, false},
    {"gpt_oss", {.num_experts = 33, .num_chosen = 4, .scoring = ExpertScoring::kSoftmaxOfChosen}, false},
    {"deepseek_v2",
     {.num_experts = 24, .num_chosen = 6, .scale = 2.5F, .num_groups = 6, .num_chosen_groups = 2},
     false},
    {"deepseek_v3",
     {.num_experts = 64,
      .num_chosen = 6,
      .scoring = ExpertScoring::kSigmoid,
      .normalized = true,
      .scale = 1.5F,
      .num_groups = 8,
      .num_chosen_groups = 3,
      .group_scoring = GroupScoring::kTwoLargest},
     true},
    {"all", {.num_experts = 5, .num_chosen = 5}, false},
};

}  // namespace dunlin::kernels
