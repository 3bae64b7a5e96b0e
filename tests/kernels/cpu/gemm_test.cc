// SPDX-License-Identifier: Apache-2.0
// GEMM against FP64 of the rounded operands, over shapes that meet every tile, tail and padding.
#include <gtest/gtest.h>

#include "kernels/cpu/activation/round_columns.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class Gemm : public CpuVariants {};

constexpr GemmShape kGemmShapes[] = {
    {1, 1, 1},     {1, 48, 2},     {2, 47, 3},     {3, 49, 5},    {4, 96, 64},    {5, 97, 63},   {6, 100, 255},
    {7, 144, 257}, {8, 33, 512},   {9, 50, 1027},  {17, 200, 31}, {31, 64, 1536}, {64, 16, 130}, {129, 70, 96},
    {300, 49, 40}, {1, 1000, 129}, {12, 97, 1030}, {48, 49, 770}, {70, 49, 2050},
};

// Rounding of a chain of K multiply-adds, plus the epilogue's few operations.
double Tolerance(int64_t depth, double magnitude) {
  return (static_cast<double>(depth) + 4) * 0x1p-23 * magnitude + 1e-30;
}

TEST_P(Gemm, MatchesFp64OfTheRoundedOperands) {
  uint32_t seed = 1;
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const GemmShape& shape : kGemmShapes) {
      const auto [rows, n, k] = shape;
      SCOPED_TRACE(std::string(traits.name) + " " + std::to_string(rows) + "x" + std::to_string(n) + "x" +
                   std::to_string(k));
      const auto a = RandomMatrix(rows, k, seed++);
      const auto w = RandomMatrix(n, k, seed++);
      const auto bias = RandomMatrix(1, n, seed++);
      const auto residual = RandomMatrix(rows, n, seed++);
      const auto weight = Pack(*device_, traits.precision, w, n, k);
      const auto activation = Quantized(*device_, traits.precision, a, rows, k);
      const auto out = RunGemm(*device_, activation->activation, weight->weight, rows, bias.data(), residual.data());
      for (int32_t m = 0; m < rows; ++m) {
        const auto a_row = RoundedRow(traits.precision, a.data() + m * k, k, false);
        for (int32_t c = 0; c < n; ++c) {
          const auto w_row = RoundedRow(traits.precision, w.data() + c * k, k, true);
          const size_t at = static_cast<size_t>(m) * static_cast<size_t>(n) + static_cast<size_t>(c);
          double expected = static_cast<double>(bias[static_cast<size_t>(c)]) + residual[at];
          double magnitude = std::fabs(expected);
          for (size_t i = 0; i < a_row.size(); ++i) {
            expected += a_row[i] * w_row[i];
            magnitude += std::fabs(a_row[i] * w_row[i]);
          }
          ASSERT_NEAR(out[at], expected, Tolerance(k, magnitude)) << m << "," << c;
        }
        if (rows > 40 && m % 16 == 3) m += 11;  // a sample of the rows of tall shapes
      }
    }
  }
}

TEST_P(Gemm, NoRowsIsANoOp) {
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, RandomMatrix(50, 20, 1), 50, 20);
    const ActivationTensor activation(*device_, traits.precision, 1, 20);
    float out = 7.0F;
    const GemmParams params{&activation.activation, &weight->weight, nullptr, nullptr, &out, 50, 0};
    EXPECT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kOk);
    EXPECT_EQ(out, 7.0F);
  }
}

TEST_P(Gemm, WritesOnlyItsColumnsAndAddsAResidualInPlace) {
  constexpr int32_t kRows = 11;
  constexpr int32_t kN = 53;
  constexpr int64_t kStride = 70;
  const auto w = RandomMatrix(kN, 40, 3);
  const auto a = RandomMatrix(kRows, 40, 4);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, w, kN, 40);
    const auto activation = Quantized(*device_, traits.precision, a, kRows, 40);
    const auto plain = RunGemm(*device_, activation->activation, weight->weight, kRows);
    std::vector<float> out(kRows * kStride, 2.0F);
    const GemmParams params{&activation->activation, &weight->weight, nullptr, out.data(), out.data(), kStride, kRows};
    ASSERT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kOk);
    for (int64_t m = 0; m < kRows; ++m) {
      for (int64_t c = 0; c < kStride; ++c) {
        const float expected = c < kN ? plain[static_cast<size_t>(m * kN + c)] + 2.0F : 2.0F;
        ASSERT_EQ(out[static_cast<size_t>(m * kStride + c)], expected) << m << "," << c;
      }
    }
  }
}

TEST_P(Gemm, RefusesBrokenParameters) {
  const auto weight = Pack(*device_, Precision::kBf16, RandomMatrix(8, 6, 1), 8, 6);
  const ActivationTensor activation(*device_, Precision::kBf16, 2, 6);
  const ActivationTensor other_depth(*device_, Precision::kBf16, 2, 7);
  const ActivationTensor other_precision(*device_, Precision::kFp32, 2, 6);
  std::vector<float> out(16);
  const GemmParams good{&activation.activation, &weight->weight, nullptr, nullptr, out.data(), 8, 2};
  const auto refused = [&](auto&& change) {
    GemmParams params = good;
    change(params);
    return device_->ops->gemm(device_->context, params) == KernelStatus::kInvalidArgument;
  };
  EXPECT_TRUE(refused([&](GemmParams& p) { p.in = nullptr; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.weight = nullptr; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.out = nullptr; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.out_stride = 7; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.num_rows = 3; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.num_rows = -1; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.in = &other_depth.activation; }));
  EXPECT_TRUE(refused([&](GemmParams& p) { p.in = &other_precision.activation; }));
  PackedWeight other_format = weight->weight;
  other_format.format = WeightFormat::kF16;  // which BF16 inputs are not multiplied with
  EXPECT_TRUE(refused([&](GemmParams& p) { p.weight = &other_format; }));
}

GemmParams Into(const Activation& in, const PackedWeight& weight, int32_t rows, Activation* next) {
  GemmParams params{};
  params.in = &in;
  params.weight = &weight;
  params.num_rows = rows;
  params.next = next;
  return params;
}

TEST_P(Gemm, AnActivatedProductHasTheBitsOfTheTwoOperations) {
  uint32_t seed = 1;
  const std::pair<Precision, Precision> forms[] = {
      {Precision::kFp32, Precision::kFp32}, {Precision::kBf16, Precision::kBf16}, {Precision::kFp16, Precision::kFp16},
      {Precision::kFp8, Precision::kBf16},  {Precision::kFp8, Precision::kFp8},   {Precision::kInt8, Precision::kBf16},
      {Precision::kInt4, Precision::kBf16}};
  for (const auto& [precision, next_precision] : forms) {
    for (const GemmShape& shape : kGemmShapes) {
      const auto [rows, n, k] = shape;
      SCOPED_TRACE(std::to_string(static_cast<int>(precision)) + " " + std::to_string(rows) + "x" + std::to_string(n) +
                   "x" + std::to_string(k));
      const auto bias = RandomMatrix(1, n, seed++);
      const auto weight = Pack(*device_, precision, RandomMatrix(n, k, seed++), n, k);
      const auto in = Quantized(*device_, precision, RandomMatrix(rows, k, seed++), rows, k);
      const auto product = RunGemm(*device_, in->activation, weight->weight, rows, bias.data());
      const auto kind = static_cast<ActivationKind>(seed % 4);
      ActivationTensor apart(*device_, next_precision, rows, n);
      ActivateParams activate{};
      activate.kind = kind;
      activate.in = product.data();
      activate.out = &apart.activation;
      activate.num_rows = rows;
      ASSERT_EQ(device_->ops->activate(device_->context, activate), KernelStatus::kOk);

      ActivationTensor next(*device_, next_precision, rows, n);
      GemmParams params = Into(in->activation, weight->weight, rows, &next.activation);
      params.bias = bias.data();
      params.activation = kind;
      ASSERT_TRUE(device_->ops->gemm_fuses(device_->context, params));
      ASSERT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kOk);
      const size_t element = cpu::ActivationElement(cpu::ContextOf(device_->context).kernels, next_precision);
      const auto bytes = static_cast<size_t>(cpu::RoundUp(n, cpu::kActivationPad)) * element;
      for (int32_t m = 0; m < rows; ++m) {
        ASSERT_EQ(std::memcmp(cpu::ActivationRow(next.activation, m), cpu::ActivationRow(apart.activation, m), bytes),
                  0)
            << m;
        if (next_precision != Precision::kFp8) continue;
        ASSERT_EQ(*cpu::ActivationScales(next.activation, m), *cpu::ActivationScales(apart.activation, m)) << m;
      }
    }
  }
}

TEST_P(Gemm, RefusesAnActivatedProductThatItCannotStore) {
  const auto weight = Pack(*device_, Precision::kBf16, RandomMatrix(8, 6, 1), 8, 6);
  const ActivationTensor in(*device_, Precision::kBf16, 2, 6);
  ActivationTensor next(*device_, Precision::kBf16, 2, 8);
  ActivationTensor narrow(*device_, Precision::kBf16, 2, 7);
  ActivationTensor short_one(*device_, Precision::kBf16, 1, 8);
  std::vector<float> out(16);
  const GemmParams good = Into(in.activation, weight->weight, 2, &next.activation);
  const auto status = [&](auto&& change) {
    GemmParams params = good;
    change(params);
    return device_->ops->gemm(device_->context, params);
  };
  EXPECT_EQ(status([&](GemmParams& p) { p.out = out.data(); }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams& p) { p.residual = out.data(); }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams& p) { p.next = &narrow.activation; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams& p) { p.next = &short_one.activation; }), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Gemm);

}  // namespace
}  // namespace dunlin::kernels
