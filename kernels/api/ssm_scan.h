// SPDX-License-Identifier: Apache-2.0
// The scan of a Mamba2 layer. State slots and bit contract: recurrent.h.
#pragma once

#include <cstdint>

#include "kernels/api/recurrent.h"

namespace dunlin::kernels {

// Heads of a Mamba2 layer. A row of its convolution has the inputs x of all heads, then B of all groups, then C.
struct SsmShape {
  int32_t num_heads = 0;   // a multiple of num_groups; consecutive heads share the B and C of a group
  int32_t num_groups = 0;  // of B and C
  int32_t head_dim = 0;    // of a head's input and output
  int32_t state_dim = 0;   // of a group's B and C

  constexpr int32_t features() const { return num_heads * head_dim; }
  constexpr int32_t channels() const { return features() + 2 * num_groups * state_dim; }
};

// Columns of a head's state are those of its input, stored as a delta net's (kStateLanes): [num_heads, blocks,
// state_dim, kStateLanes] floats. Those beyond head_dim stay 0.
constexpr int64_t SsmHeadFloats(const SsmShape& shape) {
  return int64_t{(shape.head_dim + kStateLanes - 1) / kStateLanes} * kStateLanes * shape.state_dim;
}

// A selective state space with a scalar decay. Of each head and token, in this order, with S [state_dim, head_dim] the
// head's state, 0 at a sequence's position 0:
//   t = min(max(softplus(step + step_bias), step_min), step_max);  S = exp(-rate t) S + B (t x)^T;  out = S^T C + skip
//   x
// All in FP32; softplus(x) is x above 20. Source: Dao & Gu 2024, "Transformers are SSMs", section 3.1 and algorithm 1.
struct SsmScanParams {
  SsmShape shape;
  const float* in;                // [*, shape.channels()], contiguous: of CausalConvParams::out
  const float* step;              // [*, num_heads], rows step_stride apart
  int64_t step_stride;            // floats, >= num_heads
  const float* rate;              // [num_heads], >= 0
  const float* step_bias;         // [num_heads]
  const float* skip;              // [num_heads]
  float step_min;                 // >= 0
  float step_max;                 // >= step_min, may be infinite
  StateSlots state;               // [num_heads, SsmHeadFloats] each
  const SequenceSpan* sequences;  // [num_sequences] rows of `in`; page_table_row is not read
  int32_t num_sequences;          // >= 0
  float* out;                     // [*, shape.features()], contiguous
};

}  // namespace dunlin::kernels
