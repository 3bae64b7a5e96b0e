// SPDX-License-Identifier: Apache-2.0
// The dense op by every runner: the grid, and dims beyond FLASH's.
#include <gtest/gtest.h>

#include "tests/kernels/attention/attention_runner.h"
#include "tests/kernels/attention/dense_grid.h"

namespace dunlin::kernels::testing {
namespace {

class DenseConformanceTest : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    std::string reason;
    runner_ = Runners()[GetParam()].open(&reason);
    if (runner_ == nullptr) GTEST_SKIP() << Runners()[GetParam()].name << ": " << reason;
  }
  const AttentionRunner* runner_ = nullptr;
};

TEST_P(DenseConformanceTest, StaysWithinTwiceTheUnfusedError) {
  int refused = 0;
  const DenseGrid grid(
      1, runner_->grid_cases(), runner_->runs_costly_lengths(), [this](AttentionBackend backend, DType dtype) {
        return runner_->Takes(backend, {.dtype = dtype, .head_dim = 64, .num_heads = 1, .num_kv_heads = 1});
      });
  for (const AttentionBackend backend : kBackends) {
    for (const DType dtype : kDTypes) {
      const AttentionTraits traits{.dtype = dtype, .head_dim = 64, .num_heads = 1, .num_kv_heads = 1};
      refused += runner_->Takes(backend, traits) ? 0 : 1;
    }
  }
  EXPECT_LE(refused, 1) << "only FLASH in FP32 is for a device to refuse";
  EXPECT_EQ(grid.uncovered(), refused);
  EXPECT_GE(grid.cases().size(), 100U);
  for (const GridCase& c : grid.cases()) {
    CheckCase(c, Runners()[GetParam()].name, [this](const DenseProblem& problem, AttentionBackend backend) {
      return runner_->Dense(problem, backend);
    });
  }
}

TEST_P(DenseConformanceTest, MathAndEfficientTakeAnyDim) {
  for (const DType dtype : kDTypes) {
    const DenseShape shape{.dtype = dtype,
                           .batch = 1,
                           .num_kv_heads = 1,
                           .group = 2,
                           .q_len = 9,
                           .kv_len = 90,
                           .head_dim = 320,
                           .v_head_dim = 333,
                           .causal = true,
                           .alignment = CausalAlignment::kBottomRight,
                           .bias = BiasShape::kPerHead};
    const DenseProblem problem(shape);
    for (const AttentionBackend backend : {AttentionBackend::kMath, AttentionBackend::kEfficient}) {
      const std::vector<float> out = runner_->Dense(problem, backend);
      ErrorBound bound;
      for (int32_t t = 0; t < shape.q_len; ++t) {
        const ReferenceRow row = problem.Row(0, 1, t);
        bound.Add(ExactRow(row), UnfusedRow(row, dtype), out.data() + problem.OutputStart(0, 1, t));
      }
      EXPECT_TRUE(bound.holds()) << Name(backend) << " " << Name(dtype) << " " << bound.actual();
    }
  }
}

std::vector<size_t> DenseRunners() {
  std::vector<size_t> runners;
  for (size_t i = 0; i < Runners().size(); ++i) {
    if (Runners()[i].paged_only == nullptr) runners.push_back(i);
  }
  return runners;
}

INSTANTIATE_TEST_SUITE_P(Grid, DenseConformanceTest, ::testing::ValuesIn(DenseRunners()),
                         [](const auto& test) { return std::string(Runners()[test.param].name); });

}  // namespace
}  // namespace dunlin::kernels::testing
