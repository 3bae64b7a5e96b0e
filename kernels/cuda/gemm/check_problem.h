// SPDX-License-Identifier: Apache-2.0
// The product by which a checked row of kernel_table.cc is compared with the kernel that it replaces: deterministic
// operands, with tails in every dimension, bias and, but for paired outputs, residual. Host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/grouped_gemm.h"
#include "kernels/cuda/gemm/kernel.h"

namespace dunlin::kernels::cuda {

struct CheckProblem {
  static constexpr int32_t kRows = 130;
  static constexpr int64_t kColumns = 304;  // 19 heads of 16
  static constexpr int64_t kDepth = 328;
  static constexpr int64_t kOuts = kRows * kColumns;

  // operands: of a row, the first of which counts. seed: of the weight, the bias and the residual.
  explicit CheckProblem(unsigned operands, uint64_t seed = 0);

  // The same with a weight of integer codes as a BF16 matrix of their values.
  CheckProblem Expanded() const;

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

// Of rows of the grouped table: the rows of the problem in three groups, of which one is empty, with weights that
// differ.
struct GroupedCheckProblem {
  static constexpr int32_t kGroups = 3;
  static constexpr ExpertRows kGroupRows[kGroups] = {{0, 70, 0}, {70, 0, 0}, {70, CheckProblem::kRows - 70, 0}};

  explicit GroupedCheckProblem(unsigned operands);

  // With a copy of the vectors in the device's memory.
  std::vector<BiasedWeight> Weights(void* data, const float* bias, bool gated) const;

  std::vector<CheckProblem> problems;  // each group's weight with all rows, the same in all
  std::vector<unsigned char> weights;  // of all groups
  std::vector<float> biases;           // [kGroups, kColumns]
};
// Rows [kRows, kColumns / 2] of `next` for gates that are SiLU of the first half of the product's rows.
std::vector<float> GatesOf(std::span<const float> rows);
// The rows that a kernel stored in place of those, two bytes each.
std::vector<float> StoredGates(std::span<const unsigned char> next, Precision precision);
// Of one rounding, and of what the product's tolerance becomes.
bool GatesAgree(std::span<const float> expected, std::span<const float> stored);

// The largest difference that two orders of summation may give. Operands and scales are at most 1, so a sum's error is
// some 2^-24 of the magnitudes added, and kDepth additions of at most kDepth terms of 1/4 on average: below 2^-9. E4M3
// sums of some units may lose 2^-13 of their size in each of 11 steps of 32 (a library's accumulators): below 2^-6.
constexpr float CheckToleranceOf(Precision precision) {
  return precision == Precision::kFp8 ? 0x1p-6F : 0x1p-9F;
}
// False for values that are not finite, too.
bool ChecksAgree(Precision precision, std::span<const float> expected, std::span<const float> out);

}  // namespace dunlin::kernels::cuda
