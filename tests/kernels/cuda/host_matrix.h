// Matrices in the device's layout, in host memory, and their values.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/element_ops.h"
#include "kernels/cuda/layout.h"

namespace dunlin::kernels::cuda {

// Starts as 0xFF bytes: NaN in every format.
class HostMatrix {
 public:
  HostMatrix(Precision precision, int64_t rows, int64_t columns)
      : memory_(static_cast<size_t>(MatrixBytes(precision, rows, columns)) / sizeof(Line)),
        view_{reinterpret_cast<unsigned char*>(memory_.data()), precision, rows, columns} {
    std::memset(memory_.data(), 0xFF, memory_.size() * sizeof(Line));
  }
  const MatrixView& view() const { return view_; }
  PackedWeight Weight() const { return {view_.data, view_.precision, view_.rows, view_.columns, 0}; }

  // Element (row, k), dequantised; k may be in the padding.
  float At(int64_t row, int64_t k) const {
    const float value = PackedElement(view_.precision, view_.row(row), k);
    return view_.precision == Precision::kFp8 ? value * view_.scales()[row] : value;
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

inline constexpr Precision kAllPrecisions[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8};

}  // namespace dunlin::kernels::cuda
