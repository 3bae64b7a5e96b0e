// SPDX-License-Identifier: Apache-2.0
// The kernels of low-rank adapters of the CPU variants. Contract: kernels/api/low_rank.h.
// Bit contract: an element's sum does not depend on the rows, ranks or columns that a call computes with it.
#pragma once

#include <cstdint>

#include "kernels/api/low_rank.h"

namespace dunlin::kernels::cpu {

// hidden[i][r] = scale * sum_k in[rows[i]][k] * down[r][k], of some rows and ranks.
struct LowRankDown {
  const float* in;  // row 0; rows in_stride apart
  int64_t in_stride;
  int64_t in_features;
  const int32_t* rows;  // [num_rows]
  int32_t num_rows;
  const void* down;  // the first of the ranks; rows LowRankStride(in_features) apart
  const void* next;  // what the thread's next call begins to read, may be any address; it is only prefetched
  DType dtype;       // kF32, kF16 or kBF16
  int32_t num_ranks;
  float scale;
  float* hidden;  // of the first row and rank; rows hidden_stride apart
  int64_t hidden_stride;
};

// out[rows[i]][n] += sum_r hidden[i][r] * up[r][n], of some rows and columns.
struct LowRankUp {
  const float* hidden;  // of the first row; rows hidden_stride apart
  int64_t hidden_stride;
  const int32_t* rows;  // [num_rows]
  int32_t num_rows;
  const void* up;    // from the first of the columns on, a panel's
  const void* next;  // as above
  DType dtype;
  int32_t rank;
  int64_t num_columns;
  float* out;  // row 0, from the first of the columns on; rows out_stride apart
  int64_t out_stride;
};

struct LowRankKernels {
  void (*low_rank_down)(const LowRankDown&);
  void (*low_rank_up)(const LowRankUp&);
};

extern const LowRankKernels kPortableLowRank;
extern const LowRankKernels kAvx2LowRank;
extern const LowRankKernels kNeonLowRank;
extern const LowRankKernels kAvx512LowRank;

}  // namespace dunlin::kernels::cpu
