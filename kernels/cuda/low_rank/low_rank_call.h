// SPDX-License-Identifier: Apache-2.0
// One launch of low-rank adapters' products: its parameters by value, so that nothing is copied to the device before
// it. Kernel parameters are at most 4 KiB where a driver is older than 12.1.
#pragma once

#include <cstdint>

#include "kernels/api/low_rank.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kLowRankGroups = 64;       // of a launch
inline constexpr int32_t kLowRankListed = 192;      // rows that a launch names one by one
inline constexpr int32_t kLowRankRunRows = 32;      // so many consecutive rows are named by their first one
inline constexpr int32_t kLowRankGroupRows = 1024;  // of a group

// The product of some rows of a use and one of its pairs.
struct LowRankGroup {
  const void* down;
  const void* up;
  int64_t hidden;  // of the scratch: its first row and rank
  int32_t hidden_stride;
  int32_t first_column;
  int32_t out_features;
  float scale;
  int16_t rank;
  int16_t num_rows;   // > 0
  int16_t first_row;  // of LowRankCall::rows: its row, or the first of its consecutive rows
  int8_t dtype;       // DType
  bool consecutive;
};

struct LowRankCall {
  const float* in;
  int64_t in_stride;
  float* out;
  int64_t out_stride;
  float* scratch;
  int32_t in_features;
  int32_t num_groups;
  LowRankGroup groups[kLowRankGroups];
  int32_t rows[kLowRankListed];
};
static_assert(sizeof(LowRankCall) <= 4096);

}  // namespace dunlin::kernels::cuda
