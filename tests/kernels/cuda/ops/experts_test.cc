// SPDX-License-Identifier: Apache-2.0
// Routing to experts on the host, by one lane and by several, against the CPU device.
#include "kernels/cuda/ops/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/api/device.h"
#include "tests/kernels/cpu/expert_rules.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kLanesMax = 3;

void RouteOnHost(const RouteExpertsParams& params, int32_t lanes) {
  for (int64_t row = 0; row < params.num_rows; ++row) {
    RouteMemory memory{};
    RunLanes(lanes, [&](const ThreadLanes& own) { RouteRow(own, params, row, &memory); });
  }
  for (int32_t expert = 0; expert < params.rule.num_experts; ++expert) {
    PlaceMemory<kLanesMax> memory{};
    RunLanes(lanes, [&](const ThreadLanes& own) { PlaceRows(own, params, expert, &memory); });
  }
}

void ExpectSameRouting(const Routed& routed, const Routed& expected) {
  ASSERT_EQ(routed.chosen, expected.chosen);
  ASSERT_EQ(routed.rows, expected.rows);
  ASSERT_EQ(routed.places, expected.places);
  for (size_t e = 0; e < expected.experts.size(); ++e) {
    ASSERT_EQ(routed.experts[e].first, expected.experts[e].first) << e;
    ASSERT_EQ(routed.experts[e].count, expected.experts[e].count) << e;
    ASSERT_EQ(routed.experts[e].num_decode, expected.experts[e].num_decode) << e;
  }
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    ASSERT_NEAR(routed.chosen_weights[i], expected.chosen_weights[i], 1e-6F) << i;
    ASSERT_NEAR(routed.weights[i], expected.weights[i], 1e-6F) << i;
  }
}

TEST(CudaExperts, MatchTheCpusByEveryRule) {
  constexpr int32_t kRows = 7;
  constexpr int32_t kDecode = 3;
  std::string error;
  const auto cpu = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
  ASSERT_NE(cpu, nullptr) << error;
  for (const RuleCase& c : kRules) {
    SCOPED_TRACE(c.name);
    std::vector<float> logits = RandomValues(kRows * c.rule.num_experts, 31);
    std::fill_n(logits.begin(), c.rule.num_experts, 0.5F);  // a row of ties
    const std::vector<float> correction = RandomValues(c.rule.num_experts, 32);
    const std::vector<float> scales = RandomValues(c.rule.num_experts, 33);
    Routed expected(c.rule, kRows);
    RouteExpertsParams params = expected.Params(c.rule, logits, c.rule.num_experts, kRows);
    params.decode_rows = kDecode;
    if (c.corrected) params.correction = correction.data();
    if (c.rule.num_groups == 1) params.expert_scales = scales.data();
    ASSERT_EQ(cpu->ops->route_experts(cpu->context, params), KernelStatus::kOk);
    for (const int32_t lanes : {1, kLanesMax}) {
      Routed routed(c.rule, kRows);
      RouteExpertsParams host = routed.Params(c.rule, logits, c.rule.num_experts, kRows);
      host.correction = params.correction;
      host.expert_scales = params.expert_scales;
      host.decode_rows = kDecode;
      RouteOnHost(host, lanes);
      ASSERT_NO_FATAL_FAILURE(ExpectSameRouting(routed, expected)) << lanes << " lanes";
    }
  }
}

TEST(CudaExperts, ARowOfNaNTakesExpertsThatExistAndNoneTwice) {
  for (const RuleCase& c : kRules) {
    SCOPED_TRACE(c.name);
    std::vector<float> logits = RandomValues(3 * c.rule.num_experts, 35);
    Routed clean(c.rule, 3);
    RouteOnHost(clean.Params(c.rule, logits, c.rule.num_experts, 3), 1);
    std::fill_n(logits.begin() + c.rule.num_experts, c.rule.num_experts, NAN);
    Routed routed(c.rule, 3);
    RouteOnHost(routed.Params(c.rule, logits, c.rule.num_experts, 3), 1);
    ExpectOneRowOfNaN(c.rule, routed, clean);
  }
}

TEST(CudaExperts, ExpertsWithoutRowsHaveCountsOfZero) {
  const ExpertRouting rule{.num_experts = 4, .num_chosen = 2};
  Routed routed(rule, 0);
  RouteOnHost(routed.Params(rule, {}, rule.num_experts, 0), 3);
  for (const ExpertRows& rows : routed.experts) {
    EXPECT_EQ(rows.count, 0);
    EXPECT_EQ(rows.num_decode, 0);
  }
}

TEST(CudaExperts, WeightedRowsAreAddedToTheirRows) {
  constexpr int32_t kColumns = 19;
  const std::vector<float> in = RandomValues(6 * kColumns, 36);
  const std::vector<float> before = RandomValues(2 * kColumns, 37);
  const std::vector<int32_t> places = {4, 0, 3, 1, 5, 2};
  const std::vector<float> weights = {0.5F, 9.0F, -2.0F, 9.0F, 0.0F, 9.0F, 1.5F, 9.0F, 1.0F, 9.0F, 3.0F, 9.0F};
  for (const bool sigmoid : {false, true}) {
    for (const bool picked : {false, true}) {
      std::vector<float> out = before;
      const int32_t num_places = picked ? 3 : 1;
      const AddWeightedRowsParams params{
          in.data(), picked ? places.data() : nullptr, num_places, weights.data(), 2, sigmoid, out.data(), 2, kColumns};
      std::vector<double> expected(before.begin(), before.end());
      for (int64_t row = 0; row < 2; ++row) {
        for (int64_t column = 0; column < kColumns; ++column) {
          AddWeightedAt(params, row, column);
          for (int64_t i = 0; i < num_places; ++i) {
            const int64_t place = picked ? places[static_cast<size_t>(row * 3 + i)] : row;
            const auto given = static_cast<double>(weights[static_cast<size_t>(2 * place)]);
            const double weight = sigmoid ? 1.0 / (1.0 + std::exp(-given)) : given;
            expected[static_cast<size_t>(row * kColumns + column)] +=
                weight * static_cast<double>(in[static_cast<size_t>(place * kColumns + column)]);
          }
        }
      }
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5) << i;
    }
  }
  std::vector<float> out = before;
  const AddWeightedRowsParams unweighted{in.data(), places.data(), 1, nullptr, 1, false, out.data(), 2, kColumns};
  AddWeightedAt(unweighted, 1, 3);
  EXPECT_EQ(out[kColumns + 3], before[kColumns + 3] + in[3]) << "the place of row 1 is 0";
}

}  // namespace
}  // namespace dunlin::kernels::cuda
