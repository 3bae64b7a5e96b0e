// SPDX-License-Identifier: Apache-2.0
// Attention of one query row in FP64: the reference of the attention benches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/attention.h"
#include "tools/bench/proof.h"

namespace dunlin::tools::bench {

// Values in FP32, exact in the dtype that the device reads.
struct AttentionRow {
  const float* query;   // [head_dim]
  const float* keys;    // [num_keys, head_dim], rows stride floats apart
  const float* values;  // [num_keys, v_head_dim], as keys
  int64_t stride;       // floats
  int32_t num_keys;     // visible to the row, > 0
  int32_t head_dim;
  double scale;
  int32_t v_head_dim = 0;  // 0: head_dim
  double softcap = 0.0;    // of a score; 0: none
  double slope = 0.0;      // of ALiBi, times the distance from the last key
};

// Appends one sample for each of the row's outputs. A sample's magnitude is the sum of p |v|, times the factor by which
// an error in the scores may change p: 1 + 2 * the largest sum of |q k| * scale. A soft cap makes no error larger.
void AppendSamples(const AttentionRow& row, std::span<const float> actual, std::vector<Sample>* samples);

// The bound of an error relative to a sample's magnitude, for operands of a dtype: one rounding each of P, of Q times
// the scale and of the output. FP32: a few roundings of sums.
double RelativeBound(kernels::DType dtype);

// The peak that bounds attention over K and V of a dtype: E4M3 is multiplied as BF16.
Peak PeakOf(kernels::DType dtype);

// The visible (query, key) pairs of `num_queries` rows that end at the last of `num_keys` keys.
double SeenPairs(int64_t num_queries, int64_t num_keys, bool causal);

}  // namespace dunlin::tools::bench
