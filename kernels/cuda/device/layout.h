// SPDX-License-Identifier: Apache-2.0
// The memory layout of a CUDA device: packed weights, GEMM inputs, KV pages. Only this file knows it, and of weights of
// integer codes gemm/coded_weight.h.
//
// Rows of K elements in the precision's dtype. K is padded with zeros to a multiple of 16, and zero rows pad to a
// multiple of 16 rows, so that every row is 16-byte aligned and cuBLASLt accepts FP8 matrices. Weights [N, K] are its
// matrix A (transposed), GEMM inputs [M, K] its matrix B, whose number of rows is free. Source: cuBLAS documentation,
// cublasLtMatmul, "to use FP8 kernels".
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/api/kv_layout.h"
#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

inline constexpr int64_t kMatrixMultiple = 16;  // of the elements of a row and of the rows
inline constexpr int64_t kScaleAlignment = 256;

DUNLIN_HD constexpr int64_t PaddedDepth(int64_t in_features) {
  return RoundUpTo(in_features, kMatrixMultiple);
}
DUNLIN_HD constexpr int64_t PaddedRows(int64_t rows) {
  return RoundUpTo(rows, kMatrixMultiple);
}

// Element type of a matrix by precision, for weights and inputs alike: FP32, BF16, FP16 or E4M3. FP16 GEMM inputs are
// FP16 here and FP32 on the CPU.
DUNLIN_HD constexpr int64_t ElementBytes(Precision precision) {
  return precision == Precision::kFp32 ? 4 : precision == Precision::kFp8 ? 1 : 2;
}

DUNLIN_HD constexpr int64_t RowBytes(Precision precision, int64_t columns) {
  return PaddedDepth(columns) * ElementBytes(precision);
}

// Rows, followed in FP8 by FP32 scales: one per row, or one per row and kScaleBlock columns, the first block's scales
// of all rows (padding included) before the next block's.
DUNLIN_HD constexpr int64_t ScalesOffset(Precision precision, int64_t rows, int64_t columns) {
  return RoundUpTo(PaddedRows(rows) * RowBytes(precision, columns), kScaleAlignment);
}
DUNLIN_HD constexpr int64_t MatrixBytes(Precision precision, int64_t rows, int64_t columns, int32_t scale_block) {
  const int64_t scales = precision == Precision::kFp8 ? PaddedRows(rows) * 4 * ScalesPerRow(scale_block, columns) : 0;
  return ScalesOffset(precision, rows, columns) + RoundUpTo(scales, kScaleAlignment);
}

// A packed weight or a GEMM input in memory.
struct MatrixView {
  unsigned char* data;
  Precision precision;
  int64_t rows;     // out_features, or capacity_rows
  int64_t columns;  // in_features
  int32_t scale_block = 0;

  DUNLIN_HD unsigned char* row(int64_t index) const { return data + index * RowBytes(precision, columns); }
  // FP8 only: [ScalesPerRow(scale_block, columns), PaddedRows(rows)].
  DUNLIN_HD float* scales() const { return reinterpret_cast<float*>(data + ScalesOffset(precision, rows, columns)); }
  DUNLIN_HD float& scale(int64_t row, int64_t column) const {
    return scales()[(scale_block == 0 ? 0 : column / scale_block) * PaddedRows(rows) + row];
  }
};
inline MatrixView ViewOf(const PackedWeight& weight) {
  return {static_cast<unsigned char*>(weight.data), weight.precision, weight.out_features, weight.in_features,
          weight.scale_block};
}
inline MatrixView ViewOf(const Activation& activation) {
  return {static_cast<unsigned char*>(activation.data), activation.precision, activation.capacity_rows,
          activation.columns, activation.scale_block};
}

// K and V blocks of a page: [tokens_per_page][dim padded to even], token-major, so that a key is contiguous for 16-byte
// copies; E4M3 blocks end with [tokens_per_page] FP32 scales. Slots are independent: there is no packed partner to
// zero.
DUNLIN_HD constexpr int64_t PaddedHeadDim(int32_t dim) {
  return (int64_t{dim} + 1) / 2 * 2;
}
DUNLIN_HD inline int64_t KeyBlockOffset(const KvLayout& layout, int32_t page, int32_t layer, int32_t kv_head) {
  return static_cast<int64_t>(page) * static_cast<int64_t>(layout.page_bytes) +
         layer * static_cast<int64_t>(layout.layer_bytes) + kv_head * static_cast<int64_t>(layout.head_bytes);
}
DUNLIN_HD inline int64_t ValueBlockOffset(const KvLayout& layout, int32_t page, int32_t layer, int32_t kv_head) {
  return KeyBlockOffset(layout, page, layer, kv_head) + static_cast<int64_t>(layout.key_block_bytes);
}
// Index of element (slot, d) inside a block whose rows have `dim` elements.
DUNLIN_HD constexpr int64_t KvElement(int32_t dim, int32_t slot, int32_t d) {
  return slot * PaddedHeadDim(dim) + d;
}
// Byte offset of a slot's scale inside a block of E4M3 codes.
DUNLIN_HD constexpr int64_t KvScaleOffset(int32_t dim, int32_t tokens_per_page, int32_t slot) {
  return tokens_per_page * PaddedHeadDim(dim) + slot * 4;
}

}  // namespace dunlin::kernels::cuda
