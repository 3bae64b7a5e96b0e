// SPDX-License-Identifier: Apache-2.0
// The product by which a checked row of kernel_table.cc is compared with the kernel that it replaces: deterministic
// operands, with tails in every dimension, bias and, but for paired outputs, residual. Host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/gemm/kernel.h"

namespace dunlin::kernels::cuda {

struct CheckProblem {
  static constexpr int32_t kRows = 130;
  static constexpr int64_t kColumns = 304;  // 19 heads of 16
  static constexpr int64_t kDepth = 328;
  static constexpr int64_t kOuts = kRows * kColumns;

  // Of what the row takes first.
  explicit CheckProblem(const GemmKernel& kernel);

  // With copies of the vectors in the device's memory, and `out` of kOuts floats.
  PackedWeight Weight(void* data) const;
  Activation Input(void* data) const;
  // Of rows with paired outputs: heads of queries that are not rotated, so that `out` has the product's rows.
  RotateAndStoreKvParams Heads(float* out) const;

  Precision precision;
  int32_t scale_block;
  WeightFormat format;
  std::vector<unsigned char> weight;  // in the device's layout
  std::vector<unsigned char> in;
  std::vector<float> bias;      // [kColumns]
  std::vector<float> residual;  // [kOuts]
};

// The largest difference that two orders of summation may give. Operands and scales are at most 1, so a sum's error is
// some 2^-24 of the magnitudes added, and kDepth additions of at most kDepth terms of 1/4 on average: below 2^-9. E4M3
// sums of some units may lose 2^-13 of their size in each of 11 steps of 32 (a library's accumulators): below 2^-6.
constexpr float CheckToleranceOf(Precision precision) {
  return precision == Precision::kFp8 ? 0x1p-6F : 0x1p-9F;
}
// False for values that are not finite, too.
bool ChecksAgree(Precision precision, std::span<const float> expected, std::span<const float> out);

}  // namespace dunlin::kernels::cuda
