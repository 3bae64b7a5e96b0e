// SPDX-License-Identifier: Apache-2.0
// Matrices in the device's layout, in host memory, and their values.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/ops/element_ops.h"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {

// Filled with 0xFF bytes: NaN in every format.
class HostMatrix {
 public:
  HostMatrix(Precision precision, int64_t rows, int64_t columns, int32_t scale_block = 0)
      : memory_(static_cast<size_t>(MatrixBytes(precision, rows, columns, scale_block)) / sizeof(Line)),
        view_{reinterpret_cast<unsigned char*>(memory_.data()), precision, rows, columns, scale_block} {
    std::memset(memory_.data(), 0xFF, memory_.size() * sizeof(Line));
  }
  const MatrixView& view() const { return view_; }
  PackedWeight Weight() const { return {view_.data, view_.precision, view_.rows, view_.columns, view_.scale_block}; }

  // Element (row, k), dequantised; k may be in the padding.
  float At(int64_t row, int64_t k) const {
    const float value = PackedElement(view_.precision, view_.row(row), k);
    return view_.precision == Precision::kFp8 ? value * view_.scale(row, k) : value;
  }

 private:
  struct alignas(256) Line {
    unsigned char bytes[256];
  };
  std::vector<Line> memory_;
  MatrixView view_;
};

inline std::vector<float> RandomValues(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

template <Precision kPrecision>
void FillRows(const HostMatrix& matrix, const std::vector<float>& values) {
  RowTarget target{};
  target.out = matrix.view();
  target.amax_limit = BitsToFloat(kInfinityBits);
  const CopySource source{values.data(), matrix.view().columns, matrix.view().columns, false};
  for (int64_t row = 0; row < matrix.view().rows; ++row) WriteRow<kPrecision>(SingleLane(), source, target, row);
}

// Stores values in the matrix's precision, as Quantize does. Padding rows are left unchanged.
inline void FillWith(const HostMatrix& matrix, const std::vector<float>& values) {
  switch (matrix.view().precision) {
    case Precision::kFp32:
      return FillRows<Precision::kFp32>(matrix, values);
    case Precision::kBf16:
      return FillRows<Precision::kBf16>(matrix, values);
    case Precision::kFp16:
      return FillRows<Precision::kFp16>(matrix, values);
    case Precision::kFp8:
      return FillRows<Precision::kFp8>(matrix, values);
    default:  // no matrix has another
      return;
  }
}

inline void FillRandom(const HostMatrix& matrix, uint32_t seed) {
  FillWith(matrix, RandomValues(matrix.view().rows * matrix.view().columns, seed));
}

inline constexpr Precision kAllPrecisions[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8};

}  // namespace dunlin::kernels::cuda
