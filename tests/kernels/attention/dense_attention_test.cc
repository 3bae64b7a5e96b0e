// SPDX-License-Identifier: Apache-2.0
// Dense attention beyond the grid: MATH against a plain FP32 loop bit for bit, extreme dims and batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/attention/exp2.h"
#include "tests/kernels/attention/dense_problem.h"

namespace dunlin::kernels::testing {
namespace {

// a * b + c as the variant rounds it: once where it has fused multiply-add, twice in the portable one.
float MultiplyAdd(bool fused, float a, float b, float c) {
  if (fused) return std::fma(a, b, c);
  const volatile float product = a * b;
  return product + c;
}

float Exp2(bool fused, float x) {
  if (x < cpu::kExp2Smallest) return 0.0F;
  const float whole = std::nearbyint(x);
  float y = cpu::kExp2Coefficients[5];
  for (int i = 4; i >= 0; --i) y = MultiplyAdd(fused, y, x - whole, cpu::kExp2Coefficients[i]);
  return std::ldexp(y, static_cast<int>(whole));
}

// The order of the 16 partial sums of a softmax's denominator is the only one that a plain loop would not choose: the
// portable variant adds them in a row, AVX-512 by halves.
float SumOfLanes(bool fused, const float* lanes) {
  float sum = 0.0F;
  if (!fused) {
    for (int i = 0; i < 16; ++i) sum += lanes[i];
    return sum;
  }
  float quarter[4];
  for (int i = 0; i < 4; ++i) quarter[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 4] + lanes[i + 12]);
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// One row in FP32, scores over d and values over keys in ascending order.
std::vector<float> PlainRow(const ReferenceRow& row, bool fused) {
  std::vector<float> out(static_cast<size_t>(row.value_dim()), 0.0F);
  if (row.limit == 0) return out;
  std::vector<float> p(static_cast<size_t>(row.limit));
  for (int32_t j = 0; j < row.limit; ++j) {
    float dot = 0.0F;
    for (int32_t d = 0; d < row.head_dim; ++d) {
      dot = MultiplyAdd(fused, row.q[d], row.keys[int64_t{j} * row.head_dim + d], dot);
    }
    p[static_cast<size_t>(j)] = dot;
  }
  const float scale = row.scale * 1.44269504F;
  const float max = *std::max_element(p.begin(), p.end()) * scale;
  float lanes[16] = {};
  for (size_t j = 0; j < p.size(); ++j) {
    p[j] = Exp2(fused, MultiplyAdd(fused, p[j], scale, -max));
    lanes[j % 16] += p[j];
  }
  const float sum = SumOfLanes(fused, lanes);
  for (int32_t j = 0; j < row.limit; ++j) {
    for (int32_t d = 0; d < row.value_dim(); ++d) {
      const float value = row.values[int64_t{j} * row.value_dim() + d];
      out[static_cast<size_t>(d)] =
          MultiplyAdd(fused, p[static_cast<size_t>(j)] / sum, value, out[static_cast<size_t>(d)]);
    }
  }
  return out;
}

DenseShape Shape(int32_t q_len, int32_t kv_len, int32_t head_dim, bool causal) {
  return {.dtype = DType::kF32,
          .batch = 2,
          .num_kv_heads = 1,
          .group = 3,
          .q_len = q_len,
          .kv_len = kv_len,
          .head_dim = head_dim,
          .causal = causal};
}

// Where a row's keys start at key 0: with a window the partial sums start at the window's tile.
TEST(DenseAttentionTest, MathIsAPlainFp32LoopBitForBit) {
  for (const DenseShape& shape : {Shape(1, 1, 64, false), Shape(113, 203, 33, false), Shape(90, 90, 64, true),
                                  Shape(5, 700, 9, false), Shape(50, 40, 128, true)}) {
    const DenseProblem problem(shape);
    for (const std::string& variant : AvailableCpuVariants()) {
      const std::vector<float> out = problem.Run(AttentionBackend::kMath, variant, 2);
      int64_t different = 0;
      for (int32_t b = 0; b < shape.batch; ++b) {
        for (int32_t head = 0; head < shape.num_heads(); ++head) {
          for (int32_t t = 0; t < shape.q_len; ++t) {
            const std::vector<float> plain = PlainRow(problem.Row(b, head, t), variant != "portable");
            const float* actual = out.data() + problem.OutputStart(b, head, t);
            for (size_t d = 0; d < plain.size(); ++d) different += plain[d] == actual[d] ? 0 : 1;
          }
        }
      }
      EXPECT_EQ(different, 0) << variant << " " << shape.q_len << "x" << shape.kv_len << " d " << shape.head_dim;
    }
  }
}

TEST(DenseAttentionTest, TakesDimsBeyondTheLimitOfFlash) {
  for (const DType dtype : kDTypes) {
    DenseShape shape = Shape(30, 300, 320, true);
    shape.dtype = dtype;
    shape.v_head_dim = 333;
    const DenseProblem problem(shape);
    for (const std::string& variant : AvailableCpuVariants()) {
      for (const AttentionBackend backend : {AttentionBackend::kMath, AttentionBackend::kEfficient}) {
        const std::vector<float> out = problem.Run(backend, variant, 3);
        ErrorBound bound;
        for (int32_t t = 0; t < shape.q_len; ++t) {
          const ReferenceRow row = problem.Row(1, 2, t);
          bound.Add(ExactRow(row), UnfusedRow(row, dtype), out.data() + problem.OutputStart(1, 2, t));
        }
        EXPECT_TRUE(bound.holds()) << Describe(backend, dtype, variant) << " " << bound.actual();
      }
    }
  }
}

TEST(DenseAttentionTest, AnEmptyBatchIsNothing) {
  DenseShape shape = Shape(5, 5, 64, false);
  shape.batch = 0;
  for (const AttentionBackend backend : kBackends) EXPECT_TRUE(DenseProblem(shape).Run(backend, "", 2).empty());
}

}  // namespace
}  // namespace dunlin::kernels::testing
