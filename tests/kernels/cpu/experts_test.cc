// SPDX-License-Identifier: Apache-2.0
// Routing against FP64 by each family's rule, ties, NaN, the grouping of rows, and the weighted sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/kernels/cpu/cpu_fixture.h"
#include "tests/kernels/cpu/expert_rules.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class Experts : public CpuVariants {
 protected:
  Routed Route(const ExpertRouting& rule, const std::vector<float>& logits, int64_t stride,
               const float* correction = nullptr, int32_t decode_rows = 0) {
    const auto num_rows = static_cast<int32_t>(static_cast<int64_t>(logits.size()) / stride);
    Routed out(rule, num_rows);
    RouteExpertsParams params = out.Params(rule, logits, stride, num_rows);
    params.correction = correction;
    params.decode_rows = decode_rows;
    EXPECT_EQ(device_->ops->route_experts(device_->context, params), KernelStatus::kOk);
    return out;
  }
};

// The indices of the `count` largest values, the lowest first where they are equal.
std::vector<int32_t> Largest(const std::vector<double>& values, int32_t count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

struct ExactRow {
  std::vector<int32_t> chosen;
  std::vector<double> weights;
};

// Experts of groups that are not chosen get -inf. Source: transformers 5.23, DeepseekV3TopkRouter.
void MaskGroups(const ExpertRouting& rule, std::vector<double>* choice) {
  const auto size = static_cast<size_t>(rule.num_experts / rule.num_groups);
  std::vector<double> scores;
  for (size_t first = 0; first < choice->size(); first += size) {
    std::vector<double> group(choice->begin() + static_cast<int64_t>(first),
                              choice->begin() + static_cast<int64_t>(first + size));
    std::sort(group.rbegin(), group.rend());
    scores.push_back(rule.group_scoring == GroupScoring::kTwoLargest ? group[0] + group[1] : group[0]);
  }
  const std::vector<int32_t> best = Largest(scores, rule.num_chosen_groups);
  for (size_t i = 0; i < choice->size(); ++i) {
    if (std::find(best.begin(), best.end(), static_cast<int32_t>(i / size)) == best.end()) (*choice)[i] = -HUGE_VAL;
  }
}

// Source: transformers 5.23, models/phimoe, sparsemixer.
std::vector<double> WeightsAmongNear(const ExpertRouting& rule, std::vector<double> logits,
                                     const std::vector<int32_t>& chosen) {
  std::vector<double> weights;
  for (const int32_t best : chosen) {
    const double largest = logits[static_cast<size_t>(best)];
    double sum = 0.0;
    for (const double logit : logits) {
      const bool near = (largest - logit) / std::max(std::fabs(logit), largest) <= static_cast<double>(rule.nearness);
      sum += near ? std::exp(logit - largest) : 0.0;
    }
    weights.push_back(1.0 / sum);
    logits[static_cast<size_t>(best)] = -HUGE_VAL;
  }
  return weights;
}

ExactRow ExactRouting(const ExpertRouting& rule, const float* logits, const float* correction) {
  std::vector<double> scores(logits, logits + rule.num_experts);
  if (rule.scoring == ExpertScoring::kSigmoid) {
    for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
  } else if (rule.scoring == ExpertScoring::kSoftmax) {
    for (double& score : scores) score = std::exp(score);
    const double sum = Sum(scores);
    for (double& score : scores) score /= sum;
  }
  std::vector<double> choice = scores;
  for (size_t i = 0; correction != nullptr && i < choice.size(); ++i) choice[i] += static_cast<double>(correction[i]);
  MaskGroups(rule, &choice);
  ExactRow row{Largest(choice, rule.num_chosen), {}};
  for (const int32_t expert : row.chosen) row.weights.push_back(scores[static_cast<size_t>(expert)]);
  if (rule.scoring == ExpertScoring::kSoftmaxOfNear) row.weights = WeightsAmongNear(rule, scores, row.chosen);
  for (double& weight : row.weights) {
    if (rule.scoring == ExpertScoring::kSoftmaxOfChosen) weight = std::exp(weight);
    if (rule.scoring == ExpertScoring::kSigmoidOfChosen) weight = 1.0 / (1.0 + std::exp(-weight));
  }
  const double sum = rule.normalized || rule.scoring == ExpertScoring::kSoftmaxOfChosen
                         ? Sum(row.weights) + static_cast<double>(rule.sum_offset)
                         : 1.0;
  for (double& weight : row.weights) weight *= static_cast<double>(rule.scale) / sum;
  return row;
}

TEST_P(Experts, ChoicesAndWeightsMatchFp64ByEveryRule) {
  constexpr int32_t kRows = 40;
  for (const RuleCase& c : kRules) {
    SCOPED_TRACE(c.name);
    const int64_t stride = c.rule.num_experts + 1;  // a gate of a shared expert stands behind the logits
    const auto logits = RandomMatrix(kRows, stride, 31);
    const auto correction = RandomMatrix(1, c.rule.num_experts, 32);
    const float* corrected = c.corrected ? correction.data() : nullptr;
    const Routed routed = Route(c.rule, logits, stride, corrected);
    for (int32_t row = 0; row < kRows; ++row) {
      const ExactRow exact = ExactRouting(c.rule, logits.data() + row * stride, corrected);
      for (size_t i = 0; i < exact.chosen.size(); ++i) {
        const size_t at = static_cast<size_t>(row) * exact.chosen.size() + i;
        ASSERT_EQ(routed.chosen[at], exact.chosen[i]) << "row " << row << " rank " << i;
        ASSERT_NEAR(routed.chosen_weights[at], exact.weights[i], 1e-6 * std::fabs(exact.weights[i]) + 1e-9);
      }
    }
  }
}

TEST_P(Experts, RowsAreGroupedByExpertInAscendingOrder) {
  constexpr int32_t kRows = 23;
  constexpr int32_t kDecode = 9;
  for (const RuleCase& c : kRules) {
    SCOPED_TRACE(c.name);
    const auto logits = RandomMatrix(kRows, c.rule.num_experts, 33);
    const Routed routed = Route(c.rule, logits, c.rule.num_experts, nullptr, kDecode);
    size_t at = 0;
    for (int32_t expert = 0; expert < c.rule.num_experts; ++expert) {
      EXPECT_EQ(routed.experts[static_cast<size_t>(expert)].first, static_cast<int32_t>(at));
      int32_t count = 0;
      int32_t num_decode = 0;
      for (int32_t row = 0; row < kRows; ++row) {
        for (int32_t i = 0; i < c.rule.num_chosen; ++i) {
          const auto from = static_cast<size_t>(row * c.rule.num_chosen + i);
          if (routed.chosen[from] != expert) continue;
          EXPECT_EQ(routed.rows[at], row);
          EXPECT_EQ(routed.weights[at], routed.chosen_weights[from]);
          ++at;
          ++count;
          num_decode += row < kDecode ? 1 : 0;
        }
      }
      EXPECT_EQ(routed.experts[static_cast<size_t>(expert)].count, count);
      EXPECT_EQ(routed.experts[static_cast<size_t>(expert)].num_decode, num_decode);
    }
    EXPECT_EQ(at, routed.rows.size());
    for (size_t i = 0; i < routed.places.size(); ++i) {
      const auto row = static_cast<int32_t>(i) / c.rule.num_chosen;
      EXPECT_EQ(routed.rows[static_cast<size_t>(routed.places[i])], row);
      if (static_cast<int32_t>(i) % c.rule.num_chosen > 0) {
        EXPECT_LT(routed.places[i - 1], routed.places[i]);
      }
    }
  }
}

TEST_P(Experts, ARowDoesNotDependOnItsNeighbours) {
  constexpr int32_t kRows = 300;
  for (const RuleCase& c : kRules) {
    const auto logits = RandomMatrix(kRows, c.rule.num_experts, 34);
    const Routed together = Route(c.rule, logits, c.rule.num_experts);
    const auto per_row = static_cast<size_t>(c.rule.num_chosen);
    for (size_t row = 0; row < kRows; row += 37) {
      const auto first = logits.begin() + static_cast<int64_t>(row) * c.rule.num_experts;
      const Routed alone = Route(c.rule, std::vector<float>(first, first + c.rule.num_experts), c.rule.num_experts);
      for (size_t i = 0; i < per_row; ++i) {
        EXPECT_EQ(alone.chosen[i], together.chosen[row * per_row + i]) << c.name;
        EXPECT_EQ(alone.chosen_weights[i], together.chosen_weights[row * per_row + i]) << c.name;
      }
    }
  }
}

TEST_P(Experts, TheLowestIndexWinsATie) {
  for (const RuleCase& c : kRules) {
    const Routed routed =
        Route(c.rule, std::vector<float>(static_cast<size_t>(c.rule.num_experts), 0.5F), c.rule.num_experts);
    for (int32_t i = 0; i < c.rule.num_chosen; ++i) EXPECT_EQ(routed.chosen[static_cast<size_t>(i)], i) << c.name;
  }
}

// Rows of NaN are what a broken model gives; they must not reach memory that is not theirs, nor another row.
TEST_P(Experts, ARowOfNaNTakesExpertsThatExistAndNoneTwice) {
  for (const RuleCase& c : kRules) {
    SCOPED_TRACE(c.name);
    auto logits = RandomMatrix(3, c.rule.num_experts, 35);
    const Routed clean = Route(c.rule, logits, c.rule.num_experts);
    std::fill_n(logits.begin() + c.rule.num_experts, c.rule.num_experts, kNaN);
    const Routed routed = Route(c.rule, logits, c.rule.num_experts);
    ExpectOneRowOfNaN(c.rule, routed, clean);
  }
}

TEST_P(Experts, RulesThatCannotBeFollowedAreRefused) {
  const std::vector<float> logits(64, 0.0F);
  const ExpertRouting bad[] = {{.num_experts = 0, .num_chosen = 1},
                               {.num_experts = kExpertsMax + 1, .num_chosen = 1},
                               {.num_experts = 4, .num_chosen = 5},
                               {.num_experts = 4, .num_chosen = 0},
                               {.num_experts = 4, .num_chosen = 1, .num_groups = 3},
                               {.num_experts = 4, .num_chosen = 1, .num_groups = 2, .num_chosen_groups = 3},
                               {.num_experts = 4, .num_chosen = 3, .num_groups = 2, .num_chosen_groups = 1}};
  Routed out({.num_experts = kExpertsMax + 1, .num_chosen = 5}, 1);
  for (const ExpertRouting& rule : bad) {
    const RouteExpertsParams params = out.Params(rule, logits, kExpertsMax + 1, 1);
    EXPECT_EQ(device_->ops->route_experts(device_->context, params), KernelStatus::kInvalidArgument);
  }
  RouteExpertsParams params = out.Params({.num_experts = 4, .num_chosen = 1}, logits, 3, 1);
  EXPECT_EQ(device_->ops->route_experts(device_->context, params), KernelStatus::kInvalidArgument) << "stride";
}

// In the order of the places: sums of three terms of different sizes round at each.
TEST_P(Experts, WeightedRowsAreAddedToTheirRows) {
  constexpr int32_t kColumns = 19;
  const auto in = RandomMatrix(6, kColumns, 36);
  const auto before = RandomMatrix(2, kColumns, 37);
  const std::vector<int32_t> places = {4, 0, 3, 1, 5, 2};
  const std::vector<float> weights = {0.5F, 9.0F, -2.0F, 9.0F, 0.0F, 9.0F, 1e4F, 9.0F, 1.0F, 9.0F, 3.0F, 9.0F};
  for (const bool sigmoid : {false, true}) {
    for (const bool picked : {false, true}) {
      auto out = before;
      const AddWeightedRowsParams params{
          in.data(), picked ? places.data() : nullptr, picked ? 3 : 1, weights.data(), 2, sigmoid, out.data(), 2,
          kColumns};
      ASSERT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kOk);
      for (size_t row = 0; row < 2; ++row) {
        for (size_t n = 0; n < kColumns; ++n) {
          float expected = before[row * kColumns + n];
          for (size_t i = 0; i < (picked ? 3U : 1U); ++i) {
            const size_t place = picked ? static_cast<size_t>(places[row * 3 + i]) : row;
            const double given = weights[2 * place];
            const double weight = sigmoid ? 1.0 / (1.0 + std::exp(-given)) : given;
            expected = static_cast<float>(expected + weight * in[place * kColumns + n]);
          }
          ASSERT_NEAR(out[row * kColumns + n], expected, 1e-6 * (1.0 + std::fabs(expected))) << row << ", " << n;
        }
      }
    }
  }
}

TEST_P(Experts, WeightedRowsMayOverwriteWhatTheirRowsHeld) {
  const auto in = RandomMatrix(2, 19, 38);
  std::vector<float> added(38, 0.0F);
  std::vector<float> out(38, std::numeric_limits<float>::quiet_NaN());
  AddWeightedRowsParams params{in.data(), nullptr, 1, in.data(), 1, false, added.data(), 2, 19};
  ASSERT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kOk);
  params.out = out.data();
  params.from_zero = true;
  ASSERT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kOk);
  EXPECT_EQ(out, added);
}

// Logits whose sigmoids are all 1 in FP32.
TEST_P(Experts, ChosenByLogitsWhoseSigmoidsAreEqual) {
  const ExpertRouting rule{.num_experts = 4, .num_chosen = 1, .scoring = ExpertScoring::kSigmoidOfChosen};
  const Routed routed = Route(rule, {30.0F, 40.0F, 60.0F, 50.0F}, 4);
  EXPECT_EQ(routed.chosen.front(), 2);
  EXPECT_EQ(routed.chosen_weights.front(), 1.0F);
}

TEST_P(Experts, RowsWithoutWeightsAreAddedAsTheyAre) {
  const auto in = RandomMatrix(3, 19, 41);
  const std::vector<float> ones(3, 1.0F);
  const std::vector<int32_t> places = {2, 0, 1, 1};
  std::vector<float> out(38, 0.5F);
  std::vector<float> weighted = out;
  AddWeightedRowsParams params{in.data(), places.data(), 2, nullptr, 1, false, out.data(), 2, 19};
  ASSERT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kOk);
  params.weights = ones.data();
  params.out = weighted.data();
  ASSERT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kOk);
  EXPECT_EQ(out, weighted);
  params.weights = nullptr;
  params.sigmoid = true;
  EXPECT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kInvalidArgument);
}

TEST_P(Experts, EachExpertMayHaveAScale) {
  const ExpertRouting rule{.num_experts = 5, .num_chosen = 2, .normalized = true};
  const auto logits = RandomMatrix(9, 5, 39);
  const auto scales = RandomMatrix(1, 5, 40);
  const Routed plain = Route(rule, logits, 5);
  Routed scaled(rule, 9);
  RouteExpertsParams params = scaled.Params(rule, logits, 5, 9);
  params.expert_scales = scales.data();
  ASSERT_EQ(device_->ops->route_experts(device_->context, params), KernelStatus::kOk);
  EXPECT_EQ(scaled.chosen, plain.chosen);
  for (size_t i = 0; i < plain.chosen.size(); ++i) {
    EXPECT_EQ(scaled.chosen_weights[i], plain.chosen_weights[i] * scales[static_cast<size_t>(plain.chosen[i])]);
  }
}

TEST_P(Experts, WeightedRowsWithoutPlacesHaveOneEach) {
  const std::vector<float> in(4, 1.0F);
  std::vector<float> out(4, 1.0F);
  const AddWeightedRowsParams params{in.data(), nullptr, 2, in.data(), 1, false, out.data(), 2, 2};
  EXPECT_EQ(device_->ops->add_weighted_rows(device_->context, params), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Experts);

}  // namespace
}  // namespace dunlin::kernels
