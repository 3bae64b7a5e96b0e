// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters of a linear layer: y += scale * (x A) B, of a batch whose rows have different adapters or none.
//
// Bit contract: what is added to a row depends on the row and its own adapter alone; a row without one is not touched.
// Nothing is rounded below FP32: a matrix keeps the values of its file.
#pragma once

#include <cstdint>

#include "kernels/api/dtype.h"

namespace dunlin::kernels {

inline constexpr int32_t kLowRankMax = 256;      // rank of one pair
inline constexpr int32_t kLowRankPairsMax = 16;  // of one use

// The first matrix, [rank, in_features]: rows LowRankStride(in_features) elements apart, zeros between them.
constexpr int64_t LowRankStride(int64_t features) {
  return (features + 31) / 32 * 32;
}
// The second, which files store transposed: panels of [rank, kLowRankPanel] columns of the output, one after another,
// so that it is read in order; zeros after the last column.
inline constexpr int64_t kLowRankPanel = 64;
constexpr int64_t LowRankPanels(int64_t out_features) {
  return (out_features + kLowRankPanel - 1) / kLowRankPanel;
}

// The matrices of some columns of the output, in device memory, 64-byte aligned.
struct LowRankPair {
  const void* down;      // the first matrix
  const void* up;        // the second
  DType dtype;           // of both: kF32, kF16 or kBF16
  int32_t rank;          // 1 to kLowRankMax
  int32_t first_column;  // of the output
  int32_t out_features;
  float scale;
};

// The rows of one adapter.
struct LowRankUse {
  const LowRankPair* pairs;  // [num_pairs], host memory; of distinct columns
  int32_t num_pairs;         // 1 to kLowRankPairsMax
  const int32_t* rows;       // [num_rows], host memory; of `in` and of `out`; distinct over all uses
  int32_t num_rows;          // > 0
};

// out[row, first_column + n] += sum_r h[row, r] * up[r, n], h[row, r] = scale * sum_k in[row, k] * down[r, k], for the
// pairs of each use and its rows. Sums are FP32: over k in sixteen lanes that one tree adds at the end, over r one
// chain in ascending order, added to `out` as a whole.
struct AddLowRankParams {
  const float* in;         // rows in_stride apart; must not overlap `out`
  int64_t in_stride;       // floats, >= in_features
  int32_t in_features;     // > 0
  const LowRankUse* uses;  // [num_uses], host memory
  int32_t num_uses;        // >= 0; 0 is a no-op
  float* out;              // rows out_stride apart
  int64_t out_stride;      // floats
  float* scratch;          // device memory: of each use num_rows * (sum of the ranks of its pairs) floats
};

}  // namespace dunlin::kernels
