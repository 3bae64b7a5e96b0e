// SPDX-License-Identifier: Apache-2.0
// A matrix as an FP8 checkpoint holds it: codes, and a scale for each row or for each kScaleBlock elements of a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels::testing_cpu {

struct Fp8Matrix {
  int64_t rows;
  int64_t columns;
  int32_t scale_block;
  std::vector<uint8_t> codes;  // [rows, columns], every code but the NaNs
  std::vector<float> scales;   // [rows, ScalesPerRow]

  float ScaleOf(int64_t row, int64_t column) const {
    const int64_t block = scale_block == 0 ? 0 : column / scale_block;
    return scales[static_cast<size_t>(row * ScalesPerRow(scale_block, columns) + block)];
  }
  std::vector<float> Dequantized() const {
    std::vector<float> values(codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      values[i] = E4M3ToFloat(codes[i]) * ScaleOf(at / columns, at % columns);
    }
    return values;
  }
};

inline Fp8Matrix RandomFp8Matrix(int64_t rows, int64_t columns, int32_t scale_block, uint32_t seed) {
  std::mt19937 generator(seed);
  Fp8Matrix matrix{rows, columns, scale_block, {}, {}};
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto code = static_cast<uint8_t>(generator());
    matrix.codes.push_back((code & 0x7F) == 0x7F ? static_cast<uint8_t>(code ^ 1) : code);
  }
  std::uniform_real_distribution<float> exponent(-9.0F, -4.0F);
  const int64_t num_scales = rows * ScalesPerRow(scale_block, columns);
  for (int64_t i = 0; i < num_scales; ++i) matrix.scales.push_back(std::exp2(exponent(generator)));
  return matrix;
}

// Packs the matrix whole; into an FP8 weight with its own scale block.
inline std::unique_ptr<WeightTensor> PackFp8(Device& device, Precision precision, const Fp8Matrix& matrix) {
  const int32_t scale_block = precision == Precision::kFp8 ? matrix.scale_block : 0;
  auto tensor = std::make_unique<WeightTensor>(device, precision, matrix.rows, matrix.columns, scale_block);
  const PackWeightParams params{&tensor->weight, matrix.codes.data(),  DType::kF8E4M3,    matrix.columns, 1, 0,
                                matrix.rows,     matrix.scales.data(), matrix.scale_block};
  EXPECT_EQ(device.ops->pack_weight(device.context, params), KernelStatus::kOk);
  return tensor;
}

}  // namespace dunlin::kernels::testing_cpu
