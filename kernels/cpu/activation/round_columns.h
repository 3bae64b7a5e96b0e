// SPDX-License-Identifier: Apache-2.0
// Rounding of some or all columns of an activation row: the same bits however a row is split.
#pragma once

#include <cstring>

#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/context/kernel_table.h"
#include "kernels/cpu/context/round_up.h"

namespace dunlin::kernels::cpu {

// Bytes of an element of the row.
inline size_t ActivationElement(const KernelTable& kernels, Precision precision) {
  const bool rounded = precision == Precision::kBf16 || precision == Precision::kFp8;
  return rounded ? kernels.bf16_row_bytes : sizeof(float);
}

// Zeros after the row's last column.
inline void PadRow(const KernelTable& kernels, const Activation& out, int64_t row) {
  const size_t element = ActivationElement(kernels, out.precision);
  const auto columns = static_cast<size_t>(out.columns);
  const auto pad = static_cast<size_t>(RoundUp(out.columns, kActivationPad)) - columns;
  std::memset(ActivationRow(out, row) + columns * element, 0, pad * element);
}

// values: of columns [first, first + count) of a row that is not FP8; may lie where they go.
inline void RoundColumns(const KernelTable& kernels, const Activation& out, int64_t row, int64_t first, int64_t count,
                         const float* values) {
  const size_t element = ActivationElement(kernels, out.precision);
  std::byte* target = ActivationRow(out, row) + static_cast<size_t>(first) * element;
  if (out.precision == Precision::kBf16) {
    kernels.bf16_row(values, count, target);
  } else if (values != reinterpret_cast<float*>(target)) {
    std::memcpy(target, values, static_cast<size_t>(count) * sizeof(float));
  }
  if (first + count == out.columns) PadRow(kernels, out, row);
}

}  // namespace dunlin::kernels::cpu
