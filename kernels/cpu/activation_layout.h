// Where a row lies inside Activation::data. Rows are fp32 (fp32 and fp16 precision) or bf16 (bf16 and fp8), an odd
// number of 64-byte lines apart, so that rows of a power-of-two width do not fall into the same cache sets. The gap
// after a row is at least up to the next multiple of 4 elements and holds zeros there: K is padded to it. FP8: one
// FP32 scale per row follows the rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/gemm.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kActivationPad = 4;  // elements

constexpr bool HoldsBf16(Precision precision) { return precision == Precision::kBf16 || precision == Precision::kFp8; }
constexpr size_t ActivationElementBytes(Precision precision) { return HoldsBf16(precision) ? 2 : 4; }

constexpr size_t ActivationStride(Precision precision, int64_t columns) {
  const size_t lines = (static_cast<size_t>(columns) * ActivationElementBytes(precision) + 63) / 64;
  return (lines | 1) * 64;
}

constexpr size_t ActivationBytes(Precision precision, int64_t rows, int64_t columns) {
  const size_t scales = precision == Precision::kFp8 ? static_cast<size_t>((rows + 15) / 16) * 64 : 0;
  return static_cast<size_t>(rows) * ActivationStride(precision, columns) + scales;
}

inline std::byte* ActivationRow(const Activation& activation, int64_t row) {
  return static_cast<std::byte*>(activation.data) +
         static_cast<size_t>(row) * ActivationStride(activation.precision, activation.columns);
}

// FP8 only: the row scales, [capacity_rows].
inline float* ActivationScales(const Activation& activation) {
  return reinterpret_cast<float*>(ActivationRow(activation, activation.capacity_rows));
}

}  // namespace dunlin::kernels::cpu
