// SPDX-License-Identifier: Apache-2.0
// Packing: rows of a plain matrix become rows of a packed weight, rounded, quantised or copied. The source of a call is
// a separate buffer in which column_stride or row_stride is 1.
#pragma once

#include <limits>

#include "kernels/cuda/ops/element_ops.h"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {

// The plain rows, dequantised; row `index` of the weight is row index - first_row here.
struct PackSource {
  const void* source;
  DType dtype;
  int64_t row_stride;     // elements
  int64_t column_stride;  // elements
  int64_t first_row;
  const float* scales;  // kF8E4M3: [rows, scales_per_row]
  int64_t scale_block;  // kF8E4M3: 0 or kScaleBlock
  int64_t scales_per_row;
  bool vector = false;  // the strides may prevent vector loads

  struct Row {
    const PackSource* from;
    int64_t first;
    const float* scales;

    DUNLIN_HD float One(int64_t k) const {
      const int64_t at = first + k * from->column_stride;
      switch (from->dtype) {
        case DType::kF32:
          return static_cast<const float*>(from->source)[at];
        case DType::kF16:
          return FromFp16(static_cast<const uint16_t*>(from->source)[at]);
        case DType::kBF16:
          return FromBf16(static_cast<const uint16_t*>(from->source)[at]);
        case DType::kF8E4M3:
          return FromE4M3(static_cast<const uint8_t*>(from->source)[at]) *
                 scales[from->scale_block == 0 ? 0 : k / from->scale_block];
      }
      return 0.0F;
    }
    DUNLIN_HD Float4 Four(int64_t k) const { return {{One(k), One(k + 1), One(k + 2), One(k + 3)}}; }
  };
  template <typename Lanes>
  DUNLIN_HD Row Begin(const Lanes& /*lanes*/, int64_t index) const {
    const int64_t row = index - first_row;
    return {this, row * row_stride, scales == nullptr ? nullptr : scales + row * scales_per_row};
  }
};

// FP8 from FP8: codes and scales are copied.
template <typename Lanes>
DUNLIN_HD void CopyCodes(const Lanes& lanes, const PackSource& source, const MatrixView& weight, int64_t index) {
  const int64_t row = index - source.first_row;
  const auto* codes = static_cast<const uint8_t*>(source.source) + row * source.row_stride;
  unsigned char* out = weight.row(index);
  for (int64_t k = lanes.index(); k < PaddedDepth(weight.columns); k += lanes.count()) {
    out[k] = k < weight.columns ? codes[k * source.column_stride] : uint8_t{0};
  }
  for (int64_t block = lanes.index(); block < source.scales_per_row; block += lanes.count()) {
    weight.scale(index, block * kScaleBlock) = source.scales[row * source.scales_per_row + block];
  }
}

// Packs row `index` of the weight. Only FP8 sources have scale blocks.
template <typename Lanes>
DUNLIN_HD void PackRow(const Lanes& lanes, const PackSource& source, const MatrixView& weight, int64_t index) {
  RowTarget target{};
  target.out = weight;
  target.amax_limit = BitsToFloat(kInfinityBits);
  target.scaling = InputScaling::kPerRow;
  switch (weight.precision) {
    case Precision::kFp32:
      return WriteRow<Precision::kFp32>(lanes, source, target, index);
    case Precision::kBf16:
      return WriteRow<Precision::kBf16>(lanes, source, target, index);
    case Precision::kFp16:
      return WriteRow<Precision::kFp16>(lanes, source, target, index);
    case Precision::kFp8:
      return source.dtype == DType::kF8E4M3 ? CopyCodes(lanes, source, weight, index)
                                            : WriteRow<Precision::kFp8, false>(lanes, source, target, index);
    default:  // no weight has another
      return;
  }
}

// How a source is copied to the device: parts of rows_per_part rows, each as `height` lines.
struct PackParts {
  bool by_rows;           // a line is a row (column_stride 1), else a column (row_stride 1)
  int64_t rows_per_part;  // >= 1; 0: neither stride is 1, or a row does not fit
};
// staging_bytes: the limit of a part, its scales included.
DUNLIN_HD constexpr PackParts PartsOf(int64_t row_stride, int64_t column_stride, int64_t in_features,
                                      int64_t element_bytes, int64_t scale_bytes_per_row, int64_t staging_bytes) {
  const bool by_rows = column_stride == 1;
  if (!by_rows && row_stride != 1) return {false, 0};
  // A part's scales follow its elements, aligned to 16 bytes.
  return {by_rows, (staging_bytes - 16) / (in_features * element_bytes + scale_bytes_per_row)};
}

}  // namespace dunlin::kernels::cuda
