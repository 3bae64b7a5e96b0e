// SPDX-License-Identifier: Apache-2.0
// The operations of layers whose tokens read a state of their sequence in place of earlier keys and values: gated delta
// nets (Qwen 3.5, Qwen3-Next, Kimi Linear), gated short convolutions (LFM2), Mamba2 (ssm_scan.h). A sequence's state
// lies in a slot of a pool, in FP32, and is read and written in place. Bit contract: every operation goes through a
// sequence's rows one by one, in one order, so that a row has the same bits wherever a step begins or ends, and beside
// any neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/attention.h"

namespace dunlin::kernels {

// Heads of a gated delta net. A row of its convolution has the queries of all key heads, then their keys, then the
// values of all value heads.
struct DeltaShape {
  int32_t key_heads = 0;
  int32_t value_heads = 0;    // a multiple of key_heads
  int32_t key_dim = 0;        // of a head's query and key
  int32_t value_dim = 0;      // of a head's value
  bool tiled_values = false;  // value head p takes key head p % key_heads, not p / (value_heads / key_heads)

  constexpr int32_t value_features() const { return value_heads * value_dim; }
  constexpr int32_t channels() const { return 2 * key_heads * key_dim + value_features(); }
};

// Columns of a head's state are stored in blocks of so many: [value_heads, blocks, key_dim, kStateLanes] floats. Those
// beyond value_dim stay 0.
inline constexpr int32_t kStateLanes = 16;
constexpr int64_t DeltaHeadFloats(const DeltaShape& shape) {
  return int64_t{(shape.value_dim + kStateLanes - 1) / kStateLanes} * kStateLanes * shape.key_dim;
}

// Where the states of the sequences of a call lie: that of sequence i at pool + slots[i] * slot_stride.
struct StateSlots {
  float* pool;           // of the layer's part in slot 0
  int64_t slot_stride;   // floats
  const int32_t* slots;  // [num_sequences], distinct
};

// Most taps of a convolution.
inline constexpr int32_t kConvTapsMax = 8;

// A causal convolution along each channel of u = in_gate * in, then SiLU where `silu` is set, and a gate:
//   out[t, c] = SiLU(sum over j of weight[j, c] * u[t - taps + 1 + j, c] + bias[c]) * out_gate[t, c]
// the oldest row first. Rows before the sequence's first are 0, those before the call's first are the state's: its last
// taps - 1 rows of u, [taps - 1, channels], which the call leaves there. A sequence whose span begins at position 0 has
// no state yet.
struct CausalConvParams {
  const float* in;                // [*, channels], rows in_stride apart
  int64_t in_stride;              // floats, >= channels
  const float* weight;            // [taps, channels]
  int32_t channels;               // > 0
  int32_t taps;                   // 2 to kConvTapsMax
  StateSlots state;               // [taps - 1, channels] each
  const SequenceSpan* sequences;  // [num_sequences] rows of `in`; page_table_row is not read
  int32_t num_sequences;          // >= 0
  float* out;                     // [*, channels], contiguous; must not overlap `in`
  const float* bias = nullptr;    // [channels], or null: 0
  // Rows of `channels` as those of `in`, or null: 1. The convolution is of in_gate * in.
  const float* in_gate = nullptr;
  const float* out_gate = nullptr;
  bool silu = true;
};

// A gated delta rule. Of each value head and token, in this order, with S [key_dim, value_dim] the head's state, 0 at a
// sequence's position 0:
//   q = q / sqrt(sum q^2 + 1e-6) / sqrt(key_dim);  k = k / sqrt(sum k^2 + 1e-6)
//   S = decay S, decay = exp(-rate * softplus(a + dt_bias));  u = beta (v - S^T k);  S = S + k u^T;  out = S^T q
// with beta = beta_scale * sigmoid(b): with a scale of 2 a state may change its sign along k (OLMo Hybrid).
// With `steps` row i of S has a decay of its own, of a[i] and dt_bias[i]; with decay_bound below 0, which bounds its
// logarithm, exp(decay_bound * sigmoid(rate * (a[i] + dt_bias[i]))).
// All in FP32; softplus(x) is x above 20. Source: Yang et al. 2024, "Gated Delta Networks", eq. 10; of `steps` Kimi
// Team 2025, "Kimi Linear", eq. 1.
struct DeltaScanParams {
  DeltaShape shape;
  const float* in;                // [*, shape.channels()], contiguous: of CausalConvParams::out
  const float* gates;             // [*, 2 * value_heads]: b of all heads, then a; [*, value_heads] of b with `steps`
  const float* rate;              // [value_heads], >= 0
  const float* dt_bias;           // [value_heads], with `steps` [value_heads, key_dim]
  StateSlots state;               // [value_heads, DeltaHeadFloats] each
  const SequenceSpan* sequences;  // [num_sequences] rows of `in`; page_table_row is not read
  int32_t num_sequences;          // >= 0
  float* out;                     // [*, shape.value_features()], contiguous
  int64_t gates_stride = 0;       // floats from a row of gates to the next; 0: 2 * value_heads
  // a of every row of S, [*, value_heads, key_dim], contiguous; key_dim <= kChannelDecaysMax. Null: a head has one.
  const float* steps = nullptr;
  float beta_scale = 1.0F;   // 1 or 2
  float decay_bound = 0.0F;  // <= 0; 0: none. With `steps` alone
};
inline constexpr int32_t kChannelDecaysMax = 4096;

// out = RMSNorm(in) * weight * SiLU(gate), with sigmoid_gate sigmoid(gate) in place of SiLU, or, with gate_first,
// RMSNorm(in * SiLU(gate)) * weight; the norm over each group of `columns` floats of a row.
struct GatedGroupNormParams {
  const float* in;      // [*, num_groups * columns], contiguous
  const float* gate;    // [*, num_groups * columns], rows gate_stride apart
  int64_t gate_stride;  // floats, >= num_groups * columns
  const int32_t* rows;  // [num_rows] row of both for each output row, or null for 0, 1, 2, ...
  const float* weight;  // [columns] of the first group
  float epsilon;        // > 0
  int32_t num_groups;   // > 0
  int32_t columns;      // > 0
  float* out;           // [num_rows, num_groups * columns], contiguous; must not overlap `in`
  int32_t num_rows;     // >= 0
  bool gate_first = false;
  int64_t weight_stride = 0;  // floats from the weights of a group to those of the next; 0: all have the same
  bool sigmoid_gate = false;  // not with gate_first
};

// values = values * sigmoid(gate), in place; `width` columns next to each other share a gate.
struct RowGateParams {
  float* values;        // [num_rows, columns], contiguous
  const float* gate;    // [*, columns / width], contiguous
  const int32_t* rows;  // [num_rows] row of `gate` for each row of values, or null for 0, 1, 2, ...
  int32_t num_rows;     // >= 0
  int32_t columns;      // > 0
  int32_t width = 1;    // > 0; divides columns
};

}  // namespace dunlin::kernels
