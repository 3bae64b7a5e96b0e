// SPDX-License-Identifier: Apache-2.0
// Codes against the textbook form of the algorithm in FP64, and against rounding to nearest.
#include "tools/quantize/gptq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/api/float_formats.h"
#include "tools/quantize/group_codes.h"

namespace dunlin::engine {
namespace {

using Doubles = std::vector<double>;

struct Problem {
  int64_t rows;
  int64_t columns;
  std::vector<float> weights;  // [rows, columns]
  std::vector<float> moments;  // [columns, columns]
};

// Inputs with a common part, so that their columns are correlated, and of different energy.
Problem MakeProblem(int64_t rows, int64_t columns) {
  std::mt19937 random(static_cast<uint32_t>(rows * 1000 + columns));
  std::normal_distribution<float> normal(0.0F, 1.0F);
  Problem problem{rows, columns, std::vector<float>(static_cast<size_t>(rows * columns)),
                  std::vector<float>(static_cast<size_t>(columns * columns))};
  for (float& weight : problem.weights) weight = 0.02F * normal(random);
  std::vector<float> input(static_cast<size_t>(columns));
  for (int64_t sample = 0; sample < 4 * columns; ++sample) {
    const float common = normal(random);
    for (int64_t k = 0; k < columns; ++k) {
      input[static_cast<size_t>(k)] = (common + normal(random)) * (k % 7 == 0 ? 5.0F : 0.5F);
    }
    for (int64_t i = 0; i < columns; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        problem.moments[static_cast<size_t>(i * columns + j)] +=
            input[static_cast<size_t>(i)] * input[static_cast<size_t>(j)];
      }
    }
  }
  return problem;
}

// Sum over the rows of e H e^T, the squared error of the products with the observed inputs.
double ProductError(const Problem& problem, const CodedMatrix& coded) {
  double sum = 0.0;
  Doubles error(static_cast<size_t>(problem.columns));
  for (int64_t n = 0; n < problem.rows; ++n) {
    for (int64_t k = 0; k < problem.columns; ++k) {
      const auto at = static_cast<size_t>(n * problem.columns + k);
      const float scale = coded.scales[at / static_cast<size_t>(coded.layout.group)];
      error[static_cast<size_t>(k)] =
          static_cast<double>(problem.weights[at]) - static_cast<double>(scale) * coded.codes[at];
    }
    for (size_t i = 0; i < error.size(); ++i) {
      for (size_t j = 0; j < error.size(); ++j) {
        sum += error[i] * error[j] * static_cast<double>(problem.moments[i * error.size() + j]);
      }
    }
  }
  return sum;
}

// Inverts a positive definite matrix by Gauss and Jordan.
Doubles Inverse(Doubles matrix, size_t size) {
  Doubles inverse(size * size, 0.0);
  for (size_t i = 0; i < size; ++i) inverse[i * size + i] = 1.0;
  for (size_t pivot = 0; pivot < size; ++pivot) {
    const double factor = 1.0 / matrix[pivot * size + pivot];
    for (size_t j = 0; j < size; ++j) {
      matrix[pivot * size + j] *= factor;
      inverse[pivot * size + j] *= factor;
    }
    for (size_t i = 0; i < size; ++i) {
      const double share = matrix[i * size + pivot];
      if (i == pivot || share == 0.0) continue;
      for (size_t j = 0; j < size; ++j) {
        matrix[i * size + j] -= share * matrix[pivot * size + j];
        inverse[i * size + j] -= share * inverse[pivot * size + j];
      }
    }
  }
  return inverse;
}

// Columns in the order `order`: each rounded, its error moved to those left by the inverse of what is left of the
// moments. Scales are given.
std::vector<int8_t> Textbook(const Problem& problem, const CodedMatrix& scales, std::vector<int64_t> order) {
  double mean = 0.0;
  const auto size = static_cast<size_t>(problem.columns);
  for (size_t k = 0; k < size; ++k)
    mean += static_cast<double>(problem.moments[k * (size + 1)]) / static_cast<double>(size);
  Doubles weights(problem.weights.begin(), problem.weights.end());
  std::vector<int8_t> codes(weights.size());
  while (!order.empty()) {
    const size_t left = order.size();
    Doubles moments(left * left);
    for (size_t i = 0; i < left; ++i) {
      for (size_t j = 0; j < left; ++j) {
        moments[i * left + j] =
            static_cast<double>(problem.moments[static_cast<size_t>(order[i]) * size + static_cast<size_t>(order[j])]);
      }
      moments[i * left + i] += 0.01 * mean;
    }
    const Doubles inverse = Inverse(std::move(moments), left);
    for (size_t n = 0; n < static_cast<size_t>(problem.rows); ++n) {
      const size_t at = n * size + static_cast<size_t>(order[0]);
      const float scale = scales.scales[at / static_cast<size_t>(scales.layout.group)];
      codes[at] = CodeOf(scales.layout, static_cast<float>(weights[at]), scale);
      const double error = (weights[at] - static_cast<double>(scale) * codes[at]) / inverse[0];
      for (size_t i = 1; i < left; ++i) weights[n * size + static_cast<size_t>(order[i])] -= error * inverse[i];
    }
    order.erase(order.begin());
  }
  return codes;
}

CodedMatrix Quantized(const Problem& problem, const CodeLayout& layout, bool by_activity, int num_threads) {
  const auto factor = GptqFactor::Of(problem.moments, problem.columns, by_activity);
  EXPECT_TRUE(factor.ok()) << factor.status();
  return factor->Quantize(layout, problem.weights, problem.rows, num_threads);
}

int64_t Differing(const std::vector<int8_t>& a, const std::vector<int8_t>& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

TEST(Gptq, HasTheCodesOfTheTextbook) {
  const Problem problem = MakeProblem(9, 96);
  for (const bool by_activity : {false, true}) {
    for (const int64_t group : {int64_t{32}, int64_t{96}}) {
      const CodedMatrix coded = Quantized(problem, {.bits = 4, .group = group}, by_activity, 1);
      std::vector<int64_t> order(96);
      std::iota(order.begin(), order.end(), 0);
      if (by_activity) {
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return problem.moments[static_cast<size_t>(a * 97)] > problem.moments[static_cast<size_t>(b * 97)];
        });
      }
      // FP32 may round a value near the middle of two codes to the other one, and that error then spreads in its row.
      EXPECT_LE(Differing(coded.codes, Textbook(problem, coded, order)), 9 * 96 / 50) << group << by_activity;
    }
  }
}

TEST(Gptq, KeepsProductsCloserThanRoundingToNearest) {
  const Problem problem = MakeProblem(40, 320);  // several blocks of steps, the last one partial
  for (const bool by_activity : {false, true}) {
    const CodeLayout layout{.bits = 4, .group = 32};
    const CodedMatrix nearest = RoundToNearest(layout, problem.weights.data(), problem.rows, problem.columns);
    const CodedMatrix coded = Quantized(problem, layout, by_activity, 2);
    EXPECT_LT(ProductError(problem, coded), 0.7 * ProductError(problem, nearest)) << by_activity;
  }
}

TEST(Gptq, RowsDoNotDependOnTheThreads) {
  const Problem problem = MakeProblem(200, 256);
  const CodedMatrix alone = Quantized(problem, {.bits = 4, .group = 64}, false, 1);
  const CodedMatrix shared = Quantized(problem, {.bits = 4, .group = 64}, false, 4);
  EXPECT_EQ(alone.codes, shared.codes);
  EXPECT_EQ(alone.scales, shared.scales);
}

TEST(Gptq, WeightsOfInputsThatAreAlwaysZeroBecomeZero) {
  Problem problem = MakeProblem(4, 64);
  for (size_t i = 0; i < 64; ++i) problem.moments[i * 64 + 5] = problem.moments[5 * 64 + i] = 0.0F;
  const CodedMatrix coded = Quantized(problem, {.bits = 8, .group = 32}, false, 1);
  for (size_t n = 0; n < 4; ++n) EXPECT_EQ(coded.codes[n * 64 + 5], 0);
}

TEST(Gptq, RefusesMomentsThatAreNotFinite) {
  std::vector<float> moments(64 * 64, 0.0F);
  moments[0] = std::numeric_limits<float>::infinity();
  const auto factor = GptqFactor::Of(moments, 64, false);
  EXPECT_EQ(factor.status().code(), absl::StatusCode::kInvalidArgument);
  moments[0] = 0.0F;
  EXPECT_TRUE(GptqFactor::Of(moments, 64, false).ok());  // a text that never reaches the layer
}

TEST(GroupCodes, ScalesAreStoredInTheirDtypeAndCodesAreNearest) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  std::vector<float> values(4 * 64);
  for (float& value : values) value = normal(random);
  for (const int32_t bits : {4, 8}) {
    const CodeLayout layout{.bits = bits, .group = 32, .scale_dtype = kernels::DType::kBF16};
    const CodedMatrix coded = RoundToNearest(layout, values.data(), 4, 64);
    ASSERT_EQ(coded.scales.size(), 8U);
    for (size_t i = 0; i < values.size(); ++i) {
      const float scale = coded.scales[i / 32];
      EXPECT_EQ(scale, kernels::Bf16ToFloat(kernels::FloatToBf16(scale)));
      const float limit = bits == 4 ? 8.0F : 128.0F;
      const float inside = std::clamp(values[i], -limit * scale, (limit - 1.0F) * scale);
      EXPECT_LE(std::fabs(inside - scale * static_cast<float>(coded.codes[i])), 0.5001F * scale);
    }
  }
}

TEST(GroupCodes, SmallWeightsKeepTheirBits) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0.0F, 1e-4F);
  std::vector<float> values(64);
  for (float& value : values) value = normal(random);
  const CodedMatrix coded = RoundToNearest({.bits = 8, .group = 32}, values.data(), 1, 64);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_LE(std::fabs(values[i] - coded.scales[i / 32] * static_cast<float>(coded.codes[i])), 6e-6F);
  }
}

TEST(GroupCodes, AGroupOfZerosIsExact) {
  const std::vector<float> zeros(32, 0.0F);
  const CodedMatrix coded = RoundToNearest({.bits = 4, .group = 32}, zeros.data(), 1, 32);
  EXPECT_GT(coded.scales[0], 0.0F);
  EXPECT_THAT(coded.codes, ::testing::Each(0));
}

}  // namespace
}  // namespace dunlin::engine
