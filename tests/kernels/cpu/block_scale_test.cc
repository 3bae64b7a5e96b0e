// SPDX-License-Identifier: Apache-2.0
// FP8 with a scale for each 128 elements of K: the quantised activation, and the product against FP64 and alone.
#include <gtest/gtest.h>

#include "tests/kernels/cpu/fp8_matrix.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class BlockScale : public CpuVariants {};

constexpr GemmShape kBlockScaleShapes[] = {{1, 1, 1},    {1, 48, 129},   {2, 47, 256},  {3, 49, 257},  {4, 96, 512},
                                           {5, 97, 640}, {8, 100, 1027}, {9, 144, 255}, {31, 50, 384}, {130, 33, 260}};

TEST_P(BlockScale, GemmMatchesFp64OfTheDequantisedOperands) {
  uint32_t seed = 41;
  for (const auto [rows, n, k] : kBlockScaleShapes) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(n) + "x" + std::to_string(k));
    const Fp8Matrix matrix = RandomFp8Matrix(n, k, kScaleBlock, seed++);
    const auto w = matrix.Dequantized();
    const auto bias = RandomMatrix(1, n, seed++);
    const auto residual = RandomMatrix(rows, n, seed++);
    const auto weight = PackFp8(*device_, Precision::kFp8, matrix);
    const auto in = Quantized(*device_, Precision::kFp8, RandomMatrix(rows, k, seed++), rows, k, kScaleBlock);
    const auto out = RunGemm(*device_, in->activation, weight->weight, rows, bias.data(), residual.data());
    for (int32_t m = 0; m < rows; ++m) {
      const auto a_row = StoredRow(*device_, in->activation, m);
      for (int32_t c = 0; c < n; ++c) {
        const auto at = static_cast<size_t>(m) * static_cast<size_t>(n) + static_cast<size_t>(c);
        double expected = static_cast<double>(bias[static_cast<size_t>(c)]) + residual[at];
        double magnitude = std::fabs(expected);
        for (int32_t i = 0; i < k; ++i) {
          const double product = a_row[static_cast<size_t>(i)] * w[static_cast<size_t>(c * k + i)];
          expected += product;
          magnitude += std::fabs(product);
        }
        // A block's chain, its two scales, the chain over blocks, and the weight's product with its scale in FP32.
        const double steps = kScaleBlock + 4 + k / static_cast<double>(kScaleBlock) + 4;
        ASSERT_NEAR(out[at], expected, steps * 0x1p-23 * magnitude + 1e-30) << m << "," << c;
      }
    }
  }
}

TEST_P(BlockScale, ARowIsTheSameForEveryNumberOfRowsAndThreads) {
  constexpr int32_t kRows = 140;
  constexpr int32_t kN = 101;
  constexpr int32_t kDepth = 1037;
  const auto weight = PackFp8(*device_, Precision::kFp8, RandomFp8Matrix(kN, kDepth, kScaleBlock, 51));
  const auto a = RandomMatrix(kRows, kDepth, 52);
  std::vector<float> alone;
  for (int32_t row = 0; row < kRows; ++row) {
    const std::vector<float> one(a.begin() + row * kDepth, a.begin() + (row + 1) * kDepth);
    const auto in = Quantized(*device_, Precision::kFp8, one, 1, kDepth, kScaleBlock);
    const auto out = RunGemm(*device_, in->activation, weight->weight, 1);
    alone.insert(alone.end(), out.begin(), out.end());
  }
  for (const int threads : {1, 3}) {
    const auto device = Open(GetParam(), threads);
    for (const int32_t rows : {2, 3, 4, 5, 8, 9, 17, 128, 129, kRows}) {
      const auto in = Quantized(*device, Precision::kFp8, a, rows, kDepth, kScaleBlock);
      const auto out = RunGemm(*device, in->activation, weight->weight, rows);
      ASSERT_EQ(std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0) << rows << " rows";
    }
  }
}

TEST_P(BlockScale, EachBlockIsQuantisedAsARowOfItsOwn) {
  constexpr int32_t kColumns = 300;
  const auto values = RandomMatrix(3, kColumns, 61);
  const auto whole = Quantized(*device_, Precision::kFp8, values, 3, kColumns, kScaleBlock);
  for (int32_t row = 0; row < 3; ++row) {
    const auto stored = StoredRow(*device_, whole->activation, row);
    for (int32_t first = 0; first < kColumns; first += kScaleBlock) {
      const int32_t count = std::min(kScaleBlock, kColumns - first);
      const auto begin = values.begin() + row * kColumns + first;
      const auto block = Quantized(*device_, Precision::kFp8, {begin, begin + count}, 1, count);
      const auto expected = StoredRow(*device_, block->activation, 0);
      for (int32_t i = 0; i < count; ++i) {
        ASSERT_EQ(stored[static_cast<size_t>(first + i)], expected[static_cast<size_t>(i)]) << row << "," << first + i;
      }
    }
  }
}

// The norm makes its row in the activation's own memory and quantises it there.
TEST_P(BlockScale, ANormInPlaceIsQuantisedAsItsFloats) {
  constexpr int32_t kColumns = 700;
  const auto values = RandomMatrix(2, kColumns, 62);
  const std::vector<float> weight(kColumns, 1.0F);
  ActivationTensor floats(*device_, Precision::kFp32, 2, kColumns);
  ActivationTensor codes(*device_, Precision::kFp8, 2, kColumns, kScaleBlock);
  for (Activation* out : {&floats.activation, &codes.activation}) {
    const NormParams params{NormKind::kRmsNorm, values.data(), nullptr, weight.data(), nullptr, 1e-5F, out, 2};
    ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
  }
  for (int32_t row = 0; row < 2; ++row) {
    const auto exact = StoredRow(*device_, floats.activation, row);
    const auto again = Quantized(*device_, Precision::kFp8, {exact.begin(), exact.end()}, 1, kColumns, kScaleBlock);
    EXPECT_EQ(StoredRow(*device_, codes.activation, row), StoredRow(*device_, again->activation, 0));
  }
}

TEST_P(BlockScale, AnUpperBoundNarrowsTheScaleAndSaturates) {
  const std::vector<float> values = {1.0F, -2000.0F, 500.0F, 1200.0F};
  ActivationTensor out(*device_, Precision::kFp8, 1, 4);
  out.activation.amax_limit = 1200.0F;
  const QuantizeParams params{values.data(), 4, &out.activation, 1};
  ASSERT_EQ(device_->ops->quantize(device_->context, params), KernelStatus::kOk);
  const float scale = 1200.0F / kE4M3Max;
  EXPECT_EQ(cpu::ActivationScales(out.activation, 0)[0], scale);
  const auto stored = StoredRow(*device_, out.activation, 0);
  EXPECT_EQ(stored[1], -static_cast<double>(kE4M3Max) * scale);
  EXPECT_EQ(stored[3], static_cast<double>(kE4M3Max) * scale);
  EXPECT_NEAR(stored[2], 500.0, 500.0 / 16);
}

TEST_P(BlockScale, GemmRefusesOperandsOfDifferentBlocks) {
  const auto weight = PackFp8(*device_, Precision::kFp8, RandomFp8Matrix(8, 200, kScaleBlock, 71));
  const ActivationTensor in(*device_, Precision::kFp8, 1, 200);
  std::vector<float> out(8);
  const GemmParams params{&in.activation, &weight->weight, nullptr, nullptr, out.data(), 8, 1};
  EXPECT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(BlockScale);

}  // namespace
}  // namespace dunlin::kernels
