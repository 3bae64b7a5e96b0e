// SPDX-License-Identifier: Apache-2.0
// Weights that keep the codes of a quantised checkpoint: products against FP64, row gather bit for bit, packing in
// parts, gated weights, the bit contract, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "kernels/api/layer_ops.h"
#include "kernels/cpu/activation/round_columns.h"
#include "tests/kernels/cpu/coded_matrix.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;

class GemmCodes : public CpuVariants {};

constexpr GemmShape kCodedShapes[] = {
    {1, 1, 1},     {1, 48, 256},  {2, 47, 3},    {3, 49, 31},    {4, 96, 64},     {5, 97, 63},   {6, 100, 255},
    {7, 144, 257}, {8, 33, 512},  {9, 50, 1027}, {13, 200, 31},  {31, 64, 1536},  {64, 16, 130}, {129, 70, 96},
    {300, 49, 40}, {1, 500, 144}, {70, 49, 272}, {70, 49, 2064}, {260, 97, 1296},
};

// FP64 sums of one output, and of the magnitudes that its error is relative to.
struct Expected {
  double value = 0.0;
  double magnitude = 0.0;
};
Expected Multiply(const std::vector<double>& input, const CodedMatrix& weight, int64_t n) {
  Expected sum;
  for (int64_t k = 0; k < weight.columns; ++k) {
    const double x = input[static_cast<size_t>(k)];
    const double scaled = weight.Scale(n, k) * weight.Code(n, k);
    const double minimum = weight.Minimum(n, k);
    sum.value += x * (scaled - minimum);
    sum.magnitude += std::fabs(x) * (std::fabs(scaled) + std::fabs(minimum));
  }
  return sum;
}

TEST_P(GemmCodes, MatchFp64OfTheCodes) {
  uint32_t seed = 1;
  for (const CodedForm& form : kCodedForms) {
    for (const GemmShape& shape : kCodedShapes) {
      const auto [rows, n, depth] = shape;
      SCOPED_TRACE(std::string(form.name) + " " + std::to_string(rows) + "x" + std::to_string(n) + "x" +
                   std::to_string(depth));
      const CodedMatrix matrix(form.traits, n, depth, seed++);
      const auto weight = PackCoded(*device_, form.format, matrix);
      const auto a = RandomMatrix(rows, depth, seed++);
      const auto in = Quantized(*device_, Precision::kBf16, a, rows, depth);
      const auto bias = RandomMatrix(1, n, seed++);
      const auto out = RunGemm(*device_, in->activation, weight->weight, rows, bias.data());
      for (int32_t m = 0; m < rows; m += m >= 8 && rows > 40 ? 23 : 1) {
        const auto row = RoundedRow(Precision::kBf16, a.data() + m * depth, depth, false);
        for (int32_t c = 0; c < n; ++c) {
          const Expected expected = Multiply(row, matrix, c);
          const double with_bias = expected.value + static_cast<double>(bias[static_cast<size_t>(c)]);
          const double bound = (static_cast<double>(depth) + 4) * 0x1p-23 *
                               (expected.magnitude + std::fabs(static_cast<double>(bias[static_cast<size_t>(c)])));
          ASSERT_NEAR(out[static_cast<size_t>(m * n + c)], with_bias, bound + 1e-30) << m << "," << c;
        }
      }
    }
  }
}

TEST_P(GemmCodes, GatheredRowsHaveTheBitsOfTheDequantisedCodes) {
  constexpr int32_t kN = 101;
  for (const CodedForm& form : kCodedForms) {
    for (const int32_t depth : {5, 256, 300, 528}) {
      SCOPED_TRACE(std::string(form.name) + " " + std::to_string(depth));
      const CodedMatrix matrix(form.traits, kN, depth, 3);
      const WeightCodes codes = matrix.Rows();
      const auto weight = PackCoded(*device_, form.format, matrix);
      const std::vector<int32_t> ids = {100, 0, 47, 48};
      std::vector<float> out(ids.size() * static_cast<size_t>(depth), kNaN);
      ASSERT_EQ(device_->ops->gather_rows(device_->context, {&weight->weight, ids.data(), out.data(), 4, false}),
                KernelStatus::kOk);
      for (size_t i = 0; i < ids.size(); ++i) {
        for (int32_t k = 0; k < depth; ++k) {
          const float code = codes.codes[ids[i] * depth + k];
          const float expected = ScaleAt(codes, depth, ids[i], k) * code - MinimumAt(codes, depth, ids[i], k);
          ASSERT_EQ(out[i * static_cast<size_t>(depth) + static_cast<size_t>(k)], expected) << ids[i] << "," << k;
        }
      }
    }
  }
}

TEST_P(GemmCodes, ARowIsTheSameForEveryNumberOfRowsAndThreads) {
  constexpr int32_t kRowsMax = 270;
  constexpr int32_t kN = 101;
  constexpr int32_t kDepth = 2320;  // several slices of K, of which the last is short
  const auto a = RandomMatrix(kRowsMax, kDepth, 5);
  const auto many_threads = Open(GetParam(), 5);
  for (const CodedForm& form : kCodedForms) {
    const auto weight = PackCoded(*device_, form.format, CodedMatrix(form.traits, kN, kDepth, 6));
    const auto all = Quantized(*device_, Precision::kBf16, a, kRowsMax, kDepth);
    const auto expected = RunGemm(*device_, all->activation, weight->weight, kRowsMax);
    for (const int32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 64, 129}) {
      for (Device* device : {device_.get(), many_threads.get()}) {
        const auto in = Quantized(*device, Precision::kBf16, a, rows, kDepth);
        const auto out = RunGemm(*device, in->activation, weight->weight, rows);
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0) << form.name << " " << rows;
      }
    }
  }
}

TEST_P(GemmCodes, GatedWeightsPackInPartsAndHaveTheBitsOfTheProduct) {
  constexpr int32_t kHalf = 131;
  constexpr int32_t kDepth = 288;
  for (const CodedForm& form : kCodedForms) {
    SCOPED_TRACE(form.name);
    const CodedMatrix matrix(form.traits, 2 * kHalf, kDepth, 4);
    const auto plain = PackCoded(*device_, form.format, matrix);
    WeightTensor gated(*device_, form.format, 2 * kHalf, kDepth);
    gated.weight.gated = true;
    for (const auto& [begin, end] : {std::pair{kHalf + 3, 2 * kHalf}, {0, 50}, {50, kHalf + 3}}) {
      const WeightCodes codes = matrix.Rows(begin);
      PackWeightParams params{};
      params.weight = &gated.weight;
      params.row_begin = begin;
      params.num_rows = end - begin;
      params.codes = &codes;
      ASSERT_EQ(device_->ops->pack_weight(device_->context, params), KernelStatus::kOk);
    }
    for (const int32_t rows : {1, 6, 33}) {
      const auto in = Quantized(*device_, Precision::kBf16, RandomMatrix(rows, kDepth, 7), rows, kDepth);
      const auto product = RunGemm(*device_, in->activation, plain->weight, rows);
      EXPECT_EQ(RunGemm(*device_, in->activation, gated.weight, rows), product);
      ActivationTensor apart(*device_, Precision::kBf16, rows, kHalf);
      ASSERT_EQ(device_->ops->activate(device_->context,
                                       {ActivationKind::kSilu, true, product.data(), &apart.activation, rows}),
                KernelStatus::kOk);
      ActivationTensor next(*device_, Precision::kBf16, rows, kHalf);
      GemmParams params{};
      params.in = &in->activation;
      params.weight = &gated.weight;
      params.num_rows = rows;
      params.next = &next.activation;
      params.activation = ActivationKind::kSilu;
      ASSERT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kOk);
      const size_t bytes = kHalf * cpu::ActivationElement(cpu::ContextOf(device_->context).kernels, Precision::kBf16);
      for (int32_t row = 0; row < rows; ++row) {
        ASSERT_EQ(
            std::memcmp(cpu::ActivationRow(next.activation, row), cpu::ActivationRow(apart.activation, row), bytes), 0);
      }
    }
  }
}

TEST_P(GemmCodes, EveryFormatHasKernelsAndAFormAmongThese) {
  const cpu::KernelTable& kernels = cpu::ContextOf(device_->context).kernels;
  for (const WeightFormatTraits& row : kWeightFormatTable) {
    SCOPED_TRACE(row.name);
    const auto format = static_cast<size_t>(row.format);
    EXPECT_NE(kernels.gemm[format], nullptr);
    EXPECT_EQ(kernels.int8_gemm[format] != nullptr, row.group != 0);
    const bool has_form = std::any_of(std::begin(kCodedForms), std::end(kCodedForms),
                                      [&row](const CodedForm& form) { return form.format == row.format; });
    EXPECT_EQ(has_form, Traits(row.scales).keeps_codes);
  }
}

// As docs/architecture.md has them, "Precision".
static_assert(BytesPerElement(WeightFormat::kInt4) * 8 == 4.5 && BytesPerElement(WeightFormat::kInt8) * 8 == 8.5);
static_assert(BytesPerElement(WeightFormat::kQ4) * 8 == 4.5 && BytesPerElement(WeightFormat::kQ8) * 8 == 8.5);
static_assert(BytesPerElement(WeightFormat::kQ4Super) * 8 == 4.625 &&
              BytesPerElement(WeightFormat::kQ4Zero) * 8 == 4.75);
static_assert(BytesPerElement(WeightFormat::kQ6Super) * 8 == 6.5625 &&
              BytesPerElement(WeightFormat::kQ6Min) * 8 == 7.125);
static_assert(BytesPerElement(WeightFormat::kIq4) * 8 == 4.375 && BytesPerElement(WeightFormat::kE2M1) * 8 == 4.625);
static_assert(BytesPerElement(WeightFormat::kQ8Wide) * 8 == 12 && BytesPerElement(WeightFormat::kF32) * 8 == 32);

// Also constant expressions, which have no undefined shifts.
constexpr CodeTraits kFourBits = {-8, 7, 32, 32, false, false};
constexpr CodeTraits kFourBitsZero = {-8, 7, 32, 32, false, false, true, false};
constexpr CodeTraits kFourBitsWide = {-8, 7, 32, 32, false, false, false, true};
static_assert(!Holds(WeightFormat::kF32, kFourBits) && !Holds(WeightFormat::kBf16, kFourBits));
static_assert(!Holds(WeightFormat::kF16, kFourBits) && !Holds(WeightFormat::kE4M3, kFourBits));
static_assert(!Holds(WeightFormat::kQ4, kFourBitsZero) && !Holds(WeightFormat::kQ8, kFourBitsZero));
static_assert(!Holds(WeightFormat::kQ4, kFourBitsWide) && !Holds(WeightFormat::kQ4Zero, kFourBitsWide));
static_assert(!Holds(WeightFormat::kQ4Zero, {0, 15, 32, 32, false, false, true, false}));
static_assert(!Holds(WeightFormat::kQ4Zero, {-8, 7, 16, 16, false, false, true, false}));
static_assert(!Holds(WeightFormat::kQ6Super, {-8, 7, 256, 256, false, false, true, false}));

TEST_P(GemmCodes, RefuseFormatsThatDoNotHoldThem) {
  const CodedMatrix q4({-8, 7, 32, 32, false, false}, 3, 64, 1);
  const WeightCodes codes = q4.Rows();
  const auto pack = [&](WeightFormat format, const WeightCodes* from) {
    WeightTensor tensor(*device_, format, 3, 64);
    PackWeightParams params{};
    params.weight = &tensor.weight;
    params.num_rows = 3;
    params.codes = from;
    return device_->ops->pack_weight(device_->context, params);
  };
  EXPECT_EQ(pack(WeightFormat::kQ4, &codes), KernelStatus::kOk);
  EXPECT_EQ(pack(WeightFormat::kQ8, &codes), KernelStatus::kOk);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt4, WeightFormat::kInt8,
                                    WeightFormat::kQ4Super, WeightFormat::kQ6Super, WeightFormat::kQ6Min}) {
    EXPECT_EQ(pack(format, &codes), KernelStatus::kInvalidArgument) << Name(format);
  }
  WeightCodes no_factors = codes;
  no_factors.factors = nullptr;
  EXPECT_EQ(pack(WeightFormat::kQ4, &no_factors), KernelStatus::kInvalidArgument);
  const CodedMatrix with_zeros(kFourBitsZero, 3, 64, 1);
  WeightCodes no_zero_points = with_zeros.Rows();
  EXPECT_EQ(pack(WeightFormat::kQ4, &no_zero_points), KernelStatus::kInvalidArgument);
  EXPECT_EQ(pack(WeightFormat::kQ4Zero, &no_zero_points), KernelStatus::kOk);
  no_zero_points.zero_points = nullptr;
  EXPECT_EQ(pack(WeightFormat::kQ4Zero, &no_zero_points), KernelStatus::kInvalidArgument);
  const CodedMatrix with_floats(kFourBitsWide, 3, 64, 1);
  WeightCodes no_floats = with_floats.Rows();
  EXPECT_EQ(pack(WeightFormat::kQ4, &no_floats), KernelStatus::kInvalidArgument);
  EXPECT_EQ(pack(WeightFormat::kQ8Wide, &no_floats), KernelStatus::kOk);
  no_floats.wide_factors = nullptr;
  EXPECT_EQ(pack(WeightFormat::kQ8Wide, &no_floats), KernelStatus::kInvalidArgument);
  WeightTensor tensor(*device_, WeightFormat::kQ4, 3, 64);
  const auto values = RandomMatrix(3, 64, 1);
  const PackWeightParams wide{&tensor.weight, values.data(), DType::kF32, 64, 1, 0, 3};
  EXPECT_EQ(device_->ops->pack_weight(device_->context, wide), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(GemmCodes);

}  // namespace
}  // namespace dunlin::kernels
