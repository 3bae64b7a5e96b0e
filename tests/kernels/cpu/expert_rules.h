// SPDX-License-Identifier: Apache-2.0
// The routing rules of the families, over numbers of experts that are no multiple of a vector, and what a call fills.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
    {"lfm2_moe",
     {.num_experts = 20, .num_chosen = 3, .scoring = ExpertScoring::kSigmoid, .normalized = true, .sum_offset = 0.25F},
     true},
    {"llama4", {.num_experts = 16, .num_chosen = 1, .scoring = ExpertScoring::kSigmoidOfChosen}, false},
    {"phimoe", {.num_experts = 19, .num_chosen = 2, .scoring = ExpertScoring::kSoftmaxOfNear, .nearness = 0.4F}, false},
    {"all", {.num_experts = 5, .num_chosen = 5}, false},
};

// The arrays that a call fills.
struct Routed {
  Routed(const ExpertRouting& rule, int32_t num_rows)
      : chosen(static_cast<size_t>(num_rows * rule.num_chosen), -1),
        chosen_weights(chosen.size(), NAN),
        experts(static_cast<size_t>(rule.num_experts), ExpertRows{-1, -1, -1}),
        rows(chosen.size(), -1),
        weights(chosen.size(), NAN),
        places(chosen.size(), -1) {}
  RouteExpertsParams Params(const ExpertRouting& rule, const std::vector<float>& logits, int64_t stride,
                            int32_t num_rows) {
    return {.rule = rule,
            .logits = logits.data(),
            .logits_stride = stride,
            .correction = nullptr,
            .num_rows = num_rows,
            .decode_rows = 0,
            .chosen = chosen.data(),
            .chosen_weights = chosen_weights.data(),
            .experts = experts.data(),
            .rows = rows.data(),
            .weights = weights.data(),
            .places = places.data()};
  }
  std::vector<int32_t> chosen;
  std::vector<float> chosen_weights;
  std::vector<ExpertRows> experts;
  std::vector<int32_t> rows;
  std::vector<float> weights;
  std::vector<int32_t> places;
};

// Of three rows the second was NaN, and none in `clean`: it takes experts that exist and none twice, and the others are
// as they were.
inline void ExpectOneRowOfNaN(const ExpertRouting& rule, const Routed& routed, const Routed& clean) {
  const auto k = static_cast<size_t>(rule.num_chosen);
  std::vector<int32_t> of_nan(routed.chosen.begin() + static_cast<int64_t>(k),
                              routed.chosen.begin() + static_cast<int64_t>(2 * k));
  std::sort(of_nan.begin(), of_nan.end());
  EXPECT_GE(of_nan.front(), 0);
  EXPECT_LT(of_nan.back(), rule.num_experts);
  EXPECT_EQ(std::adjacent_find(of_nan.begin(), of_nan.end()), of_nan.end());
  EXPECT_TRUE(std::isnan(routed.chosen_weights[k]));
  for (size_t i = 0; i < k; ++i) {
    EXPECT_EQ(routed.chosen_weights[i], clean.chosen_weights[i]);
    EXPECT_EQ(routed.chosen_weights[2 * k + i], clean.chosen_weights[2 * k + i]);
  }
}

}  // namespace dunlin::kernels
