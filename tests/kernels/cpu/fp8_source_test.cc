// SPDX-License-Identifier: Apache-2.0
// Weights that come as FP8 codes and scales: kept as they are in an FP8 weight, dequantised in the others.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/cpu/gemm/packed_layout.h"
#include "tests/kernels/cpu/fp8_matrix.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class Fp8Source : public CpuVariants {
 protected:
  KernelStatus PackPart(const PackWeightParams& params) { return device_->ops->pack_weight(device_->context, params); }
};

constexpr std::pair<int64_t, int64_t> kSourceShapes[] = {{1, 1}, {47, 3}, {48, 128}, {49, 257}, {150, 515}};

TEST_P(Fp8Source, CodesAndScalesArePackedUnchanged) {
  for (const int32_t scale_block : {0, kScaleBlock}) {
    for (const auto& [n, k] : kSourceShapes) {
      const Fp8Matrix matrix = RandomFp8Matrix(n, k, scale_block, 31);
      const auto packed = PackFp8(*device_, Precision::kFp8, matrix);
      const auto* codes = static_cast<const uint8_t*>(packed->weight.data);
      for (int64_t row = 0; row < n; ++row) {
        const int64_t panel = row / cpu::kPanelColumns;
        const int64_t column = row % cpu::kPanelColumns;
        const uint8_t* at = codes + panel * static_cast<int64_t>(cpu::PanelBytes(WeightFormat::kE4M3, k));
        for (int64_t i = 0; i < k; ++i) {
          ASSERT_EQ(at[cpu::ElementIndex(WeightFormat::kE4M3, i, column)],
                    matrix.codes[static_cast<size_t>(row * k + i)]);
        }
        for (int64_t i = 0; i < ScalesPerRow(scale_block, k); ++i) {
          ASSERT_EQ(cpu::PanelScales(packed->weight, panel)[i * cpu::kPanelColumns + column],
                    matrix.ScaleOf(row, i * kScaleBlock));
        }
      }
    }
  }
}

TEST_P(Fp8Source, OtherPrecisionsPackAsTheDequantisedFloats) {
  for (const int32_t scale_block : {0, kScaleBlock}) {
    for (const auto& [n, k] : kSourceShapes) {
      const Fp8Matrix matrix = RandomFp8Matrix(n, k, scale_block, 32);
      for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
        const auto expected = Pack(*device_, precision, matrix.Dequantized(), n, k);
        const auto actual = PackFp8(*device_, precision, matrix);
        ASSERT_EQ(std::memcmp(expected->memory.data(), actual->memory.data(), expected->memory.bytes()), 0)
            << Name(precision) << " " << n << "x" << k;
      }
    }
  }
}

// Each of the 256 codes at each K of the layout's group, alone in its row of the weight.
TEST_P(Fp8Source, EveryCodeIsMultipliedExactly) {
  constexpr int32_t kCodes = 256;
  constexpr int32_t kDepth = 7;
  const std::vector<float> a(static_cast<size_t>(40 * kDepth), kE4M3Max);  // scale 1
  for (int32_t k = 0; k < kDepth; ++k) {
    Fp8Matrix matrix{kCodes, kDepth, 0, std::vector<uint8_t>(kCodes * kDepth), std::vector<float>(kCodes, 1.0F)};
    for (int32_t code = 0; code < kCodes; ++code) {
      matrix.codes[static_cast<size_t>(code * kDepth + k)] = static_cast<uint8_t>(code);
    }
    const auto weight = PackFp8(*device_, Precision::kFp8, matrix);
    for (const int32_t rows : {1, 9, 40}) {
      const auto activation = Quantized(*device_, Precision::kFp8, a, rows, kDepth);
      const std::vector<float> out = RunGemm(*device_, activation->activation, weight->weight, rows);
      for (size_t i = 0; i < out.size(); ++i) {
        const float expected = kE4M3Max * E4M3ToFloat(static_cast<uint8_t>(i % kCodes));
        ASSERT_TRUE(out[i] == expected || (std::isnan(out[i]) && std::isnan(expected)))
            << "code " << i % kCodes << " at K " << k << ": " << out[i];
      }
    }
  }
}

TEST_P(Fp8Source, PartsInAnyOrderGiveTheSameBytes) {
  constexpr int64_t kN = 150;
  constexpr int64_t kDepth = 301;
  for (const int32_t scale_block : {0, kScaleBlock}) {
    const Fp8Matrix matrix = RandomFp8Matrix(kN, kDepth, scale_block, 33);
    const auto whole = PackFp8(*device_, Precision::kFp8, matrix);
    WeightTensor parts(*device_, Precision::kFp8, kN, kDepth, scale_block);
    for (const auto& [begin, rows] : {std::pair<int64_t, int64_t>{100, 50}, {0, 30}, {70, 0}, {30, 70}}) {
      const float* scales = matrix.scales.data() + begin * ScalesPerRow(scale_block, kDepth);
      ASSERT_EQ(PackPart({&parts.weight, matrix.codes.data() + begin * kDepth, DType::kF8E4M3, kDepth, 1, begin, rows,
                          scales, scale_block}),
                KernelStatus::kOk);
    }
    EXPECT_EQ(std::memcmp(whole->memory.data(), parts.memory.data(), parts.memory.bytes()), 0) << scale_block;
  }
}

TEST_P(Fp8Source, GatherDequantises) {
  for (const int32_t scale_block : {0, kScaleBlock}) {
    const Fp8Matrix matrix = RandomFp8Matrix(60, 300, scale_block, 34);
    const auto packed = PackFp8(*device_, Precision::kFp8, matrix);
    std::vector<int32_t> ids(60);
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<float> out(60 * 300, kNaN);
    const GatherRowsParams params{&packed->weight, ids.data(), out.data(), 60, false};
    ASSERT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kOk);
    EXPECT_EQ(out, matrix.Dequantized());
  }
}

TEST_P(Fp8Source, RefusesScalesThatDoNotFit) {
  const Fp8Matrix by_row = RandomFp8Matrix(10, 200, 0, 35);
  WeightTensor row_weight(*device_, Precision::kFp8, 10, 200);
  WeightTensor block_weight(*device_, Precision::kFp8, 10, 200, kScaleBlock);
  WeightTensor float_weight(*device_, Precision::kFp32, 10, 200);
  const std::vector<float> floats(2000);
  const auto refused = [&](PackedWeight* weight, const void* source, DType dtype, const float* scales, int32_t block) {
    return PackPart({weight, source, dtype, 200, 1, 0, 10, scales, block}) == KernelStatus::kInvalidArgument;
  };
  const uint8_t* codes = by_row.codes.data();
  const float* scales = by_row.scales.data();
  EXPECT_TRUE(refused(&row_weight.weight, codes, DType::kF8E4M3, nullptr, 0));
  EXPECT_TRUE(refused(&block_weight.weight, codes, DType::kF8E4M3, scales, 0));
  EXPECT_TRUE(refused(&row_weight.weight, codes, DType::kF8E4M3, scales, kScaleBlock));
  EXPECT_TRUE(refused(&float_weight.weight, codes, DType::kF8E4M3, scales, 64));
  EXPECT_TRUE(refused(&block_weight.weight, floats.data(), DType::kF32, nullptr, 0));
  EXPECT_TRUE(refused(&float_weight.weight, floats.data(), DType::kF32, scales, 0));
  EXPECT_FALSE(refused(&row_weight.weight, codes, DType::kF8E4M3, scales, 0));
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Fp8Source);

}  // namespace
}  // namespace dunlin::kernels
