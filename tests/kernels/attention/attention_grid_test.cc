// SPDX-License-Identifier: Apache-2.0
// The dense grid on the CPU, every variant of it.
#include <gtest/gtest.h>

#include "tests/kernels/attention/dense_grid.h"

namespace dunlin::kernels::testing {
namespace {

constexpr size_t kNumCases = 2200;
constexpr int kNumParts = 8;  // tests, so that they can run side by side

const DenseGrid& Grid() {
  static const DenseGrid grid(static_cast<int>(AvailableCpuVariants().size()), kNumCases, true,
                              [](AttentionBackend, DType) { return true; });
  return grid;
}

class AttentionGridTest : public ::testing::TestWithParam<int> {};

TEST_P(AttentionGridTest, StaysWithinTwiceTheUnfusedError) {
  const std::vector<GridCase>& cases = Grid().cases();
  ASSERT_GE(cases.size(), 2000U);
  EXPECT_EQ(Grid().uncovered(), 0);
  for (size_t i = static_cast<size_t>(GetParam()); i < cases.size(); i += kNumParts) {
    const std::string variant = AvailableCpuVariants()[static_cast<size_t>(VariantOf(cases[i]))];
    CheckCase(cases[i], variant, [&variant](const DenseProblem& problem, AttentionBackend backend) {
      return problem.Run(backend, variant, 2);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, AttentionGridTest, ::testing::Range(0, kNumParts));

}  // namespace
}  // namespace dunlin::kernels::testing
