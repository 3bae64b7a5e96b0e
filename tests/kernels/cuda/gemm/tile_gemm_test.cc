// SPDX-License-Identifier: Apache-2.0
// Whole launches of the tile GEMM on the host: against FP64 within the CPU's bound, independent of other rows, and with
// NaN in all memory that must not be read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>

#include "tests/kernels/cuda/gemm/tile_runner.h"

namespace dunlin::kernels::cuda {
namespace {

// A GEMM of rounded random operands. Rows past num_rows, of both matrices, are NaN.
struct Problem {
  Problem(const TileOperands& operands, int32_t num_rows, int64_t columns, int64_t depth, int64_t stride)
      : rows(num_rows),
        weight(operands.precision, columns, depth, operands.scale_block),
        in(operands.precision, num_rows, depth, operands.scale_block),
        bias(RandomValues(columns, 3)),
        before(RandomValues(num_rows * stride, 4)),
        packed(weight.Weight()) {
    FillRandom(weight, 1);
    FillRandom(in, 2);
    activation.data = in.view().data;
    activation.precision = operands.precision;
    activation.capacity_rows = num_rows;
    activation.columns = static_cast<int32_t>(depth);
    activation.scale_block = operands.scale_block;
  }
  GemmParams Params(float* out, int64_t stride) const {
    return {&activation, &packed, bias.data(), out, out, stride, rows};  // the residual in place
  }

  int32_t rows;
  HostMatrix weight;
  HostMatrix in;
  std::vector<float> bias;
  std::vector<float> before;
  PackedWeight packed;
  Activation activation;
};

struct Shape {
  int32_t rows;
  int64_t columns;
  int64_t depth;
  int64_t stride;
};
// All tails of rows, columns and depth; one slice and several; strides that allow vector stores and strides that do
// not.
constexpr Shape kShapes[] = {{1, 1, 1, 1},        {3, 64, 64, 64},   {16, 65, 130, 65}, {17, 130, 257, 132},
                             {5, 100, 1027, 101}, {33, 70, 640, 72}, {66, 67, 129, 68}, {2, 40, 2100, 40}};

void ExpectIsTheProduct(const Problem& problem, const Shape& shape, const std::vector<float>& out) {
  for (int64_t m = 0; m < shape.rows; ++m) {
    for (int64_t n = 0; n < shape.stride; ++n) {
      const auto at = static_cast<size_t>(m * shape.stride + n);
      if (n >= shape.columns) {
        ASSERT_EQ(out[at], problem.before[at]) << "between the rows nothing is written";
        continue;
      }
      double expected = double{problem.bias[static_cast<size_t>(n)]} + problem.before[at];
      double magnitude = std::fabs(expected);
      for (int64_t k = 0; k < shape.depth; ++k) {
        const double product = double{problem.weight.At(n, k)} * problem.in.At(m, k);
        expected += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(out[at], expected, static_cast<double>(shape.depth + 8) * 0x1p-23 * magnitude) << m << ", " << n;
    }
  }
}

TEST(TileGemm, MatchesFp64WithinTheCpusBound) {
  for (const TileOperands& operands : kTileOperands) {
    for (const bool decodes : {true, false}) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(NameOf(operands) + (decodes ? " decode " : " prefill ") + std::to_string(shape.rows) + " x " +
                     std::to_string(shape.columns) + " x " + std::to_string(shape.depth));
        const Problem problem(operands, shape.rows, shape.columns, shape.depth, shape.stride);
        std::vector<float> out = problem.before;
        RunTiles(problem.Params(out.data(), shape.stride), 0, shape.rows, decodes);
        ASSERT_NO_FATAL_FAILURE(ExpectIsTheProduct(problem, shape, out));
      }
    }
  }
}

// The first rows of 70, in calls of 1 to 33 rows, starting at any row, and of all.
TEST(TileGemm, ARowHasTheSameBitsInAnyCall) {
  constexpr int32_t kRows = 70;
  constexpr int64_t kColumns = 68;
  for (const TileOperands& operands : kTileOperands) {
    for (const bool decodes : {true, false}) {
      SCOPED_TRACE(NameOf(operands) + (decodes ? " decode" : " prefill"));
      const Problem problem(operands, kRows, kColumns, 900, kColumns);
      std::vector<float> all = problem.before;
      RunTiles(problem.Params(all.data(), kColumns), 0, kRows, decodes);
      for (int32_t count = 1; count <= 33; ++count) {
        const int32_t first = count % 3 == 0 ? 0 : kRows - count - count % 3;
        std::vector<float> some = problem.before;
        RunTiles(problem.Params(some.data(), kColumns), first, count, decodes);
        const auto at = static_cast<size_t>(first * kColumns);
        ASSERT_EQ(std::memcmp(&some[at], &all[at], static_cast<size_t>(count * kColumns) * sizeof(float)), 0) << count;
        some.erase(some.begin() + static_cast<ptrdiff_t>(at),
                   some.begin() + static_cast<ptrdiff_t>(at + static_cast<size_t>(count * kColumns)));
        std::vector<float> rest = problem.before;
        rest.erase(rest.begin() + static_cast<ptrdiff_t>(at),
                   rest.begin() + static_cast<ptrdiff_t>(at + static_cast<size_t>(count * kColumns)));
        ASSERT_EQ(some, rest) << "other rows are left alone";
      }
    }
  }
}

// Row m is tanh-GELU of its product, in the dtype of `out`.
void ExpectIsActivated(const Problem& problem, int64_t depth, const HostMatrix& out, int64_t m) {
  const bool half = out.view().precision == Precision::kFp16;
  for (int64_t n = 0; n < out.view().columns; ++n) {
    double sum = problem.bias[static_cast<size_t>(n)];
    double magnitude = std::fabs(sum);
    for (int64_t k = 0; k < depth; ++k) {
      const double product = double{problem.weight.At(n, k)} * problem.in.At(m, k);
      sum += product;
      magnitude += std::fabs(product);
    }
    // Hendrycks & Gimpel 2016: the tanh approximation.
    const double expected =
        0.5 * sum * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (sum + 0.044715 * sum * sum * sum)));
    const double rounding = (half ? 0x1.02p-11 : 0x1.02p-8) * std::fabs(expected) + 0x1p-24;
    ASSERT_NEAR(out.At(m, n), expected, static_cast<double>(depth + 8) * 0x1p-22 * magnitude + rounding) << n;
  }
}

// In place of FP32 rows: with one slice and several, the same bits in any call.
TEST(TileGemm, AFusedActivationWritesTheNextInput) {
  constexpr int32_t kRows = 19;
  constexpr int64_t kColumns = 80;
  for (const auto& [precision, decodes, depth] : {std::tuple{Precision::kBf16, true, 700},
                                                  {Precision::kFp16, true, 700},
                                                  {Precision::kFp16, true, 5},
                                                  {Precision::kFp16, false, 5},
                                                  {Precision::kBf16, false, 5}}) {
    SCOPED_TRACE(std::string(Name(precision)) + " depth " + std::to_string(depth));
    const Problem problem({precision, 0}, kRows, kColumns, depth, kColumns);
    const HostMatrix all(precision, kRows, kColumns);
    const HostMatrix some(precision, kRows, kColumns);
    problem.in.view().row(7)[1] = 0x7F;  // the upper half of an element: NaN
    problem.in.view().row(7)[0] = 0xFF;
    const auto run = [&, decodes = decodes](const HostMatrix& out, int64_t first, int32_t count) {
      Activation next{.data = out.view().data, .precision = out.view().precision, .capacity_rows = kRows};
      next.columns = kColumns;
      GemmParams params = problem.Params(nullptr, 0);
      params.residual = nullptr;
      params.next = &next;
      RunTiles(params, first, count, decodes);
    };
    run(all, 0, kRows);
    run(some, 3, 2);
    for (int64_t m = 0; m < kRows; ++m) {
      if (m == 7) {
        for (int64_t n = 0; n < kColumns; ++n) ASSERT_TRUE(std::isnan(all.At(m, n)));
      } else {
        ASSERT_NO_FATAL_FAILURE(ExpectIsActivated(problem, depth, all, m)) << m;
      }
      const bool ran = m == 3 || m == 4;
      for (int64_t n = 0; n < kColumns; ++n) {
        ASSERT_TRUE(ran ? some.At(m, n) == all.At(m, n) : std::isnan(some.At(m, n))) << m << ", " << n;
      }
    }
  }
}

TEST(TileGemm, ANanStaysInItsRow) {
  constexpr int32_t kRows = 20;
  constexpr int64_t kColumns = 66;
  for (const TileOperands& operands : kTileOperands) {
    SCOPED_TRACE(NameOf(operands));
    const Problem problem(operands, kRows, kColumns, 600, kColumns);
    std::vector<float> clean = problem.before;
    RunTiles(problem.Params(clean.data(), kColumns), 0, kRows, true);
    problem.in.view().row(3)[1] = 0x7F;  // the upper half of element 0, or code 1: NaN in any format
    problem.in.view().row(3)[0] = 0xFF;
    std::vector<float> out = problem.before;
    RunTiles(problem.Params(out.data(), kColumns), 0, kRows, true);
    for (int64_t m = 0; m < kRows; ++m) {
      for (int64_t n = 0; n < kColumns; ++n) {
        const auto at = static_cast<size_t>(m * kColumns + n);
        if (m == 3) {
          ASSERT_TRUE(std::isnan(out[at])) << n;
        } else {
          ASSERT_EQ(out[at], clean[at]) << m << ", " << n;
        }
      }
    }
  }
}

TEST(TileGemm, SharedScalesMultiplyAsPerRowScales) {
  const Problem problem({Precision::kFp8, 0}, 4, 33, 140, 33);
  std::vector<float> own = problem.before;
  RunTiles(problem.Params(own.data(), 33), 0, 4, true);
  // kGiven and kCurrent store one scale for every row: twice the first row's.
  for (int64_t row = 0; row < 4; ++row) problem.in.view().scale(row, 0) *= 2.0F;
  std::vector<float> shared = problem.before;
  RunTiles(problem.Params(shared.data(), 33), 0, 4, true);
  for (size_t i = 0; i < own.size(); ++i) {
    const float rest = problem.bias[i % 33] + problem.before[i];
    ASSERT_NEAR(shared[i] - rest, 2 * (own[i] - rest), 1e-4F);
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
