// SPDX-License-Identifier: Apache-2.0
// The scans over heads' states as rules of one block program (scan_block.h). Of a head and token, with S [rows,
// columns] the head's state:
//   update = write_factor (value - read_factor S^T write);  S = decay S + write update^T;  out = out_factor S^T read
// A delta net writes keys and reads queries; one with a decay of each row of S applies it first, too. Mamba2 writes B
// and reads C, its update is write_factor value, and its output gets `skip` times the value.
#pragma once

#include <cmath>

#include "kernels/api/ssm_scan.h"
#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// What a token's update is scaled by.
struct alignas(16) RowFactors {
  float decay;
  float read;
  float write;
  float out;
};

// Rows of a state that a block holds in registers: DeltaShape::key_dim, SsmShape::state_dim.
inline constexpr int32_t kStateRowsMax = 256;

// A head's state, and how its rows and columns are called.
struct ScanShape {
  int32_t heads;
  int32_t rows;         // of a head's state
  int32_t columns;      // of a head's state
  int64_t head_floats;  // from a head's state to the next
};

// Where the rows of a head begin that its scan reads.
struct ScanRows {
  const float* write;   // [rows] of a token
  const float* read;    // [rows] of a token
  const float* values;  // [columns] of a token
  int64_t stride;       // floats, of each from a token to the next
  const float* gates;   // the first number of a token
  int64_t gate_step;    // floats to its next number
  int64_t gate_stride;  // floats to the next token
};

DUNLIN_HD inline float Softplus(float x) {
  return x > 20.0F ? x : log1pf(expf(x));
}

struct DeltaRule {
  using Params = DeltaScanParams;
  static constexpr bool kReadsFirst = true;  // the update depends on the state
  static constexpr bool kRowDecays = false;  // a decay of each row of a state, in place of one of the head
  static constexpr int kGates = 2;           // numbers of a token and head

  DUNLIN_HD static ScanShape ShapeOf(const Params& params) {
    const DeltaShape& shape = params.shape;
    return {shape.value_heads, shape.key_dim, shape.value_dim, DeltaHeadFloats(shape)};
  }
  // From row `row` of the call on.
  DUNLIN_HD static ScanRows RowsOf(const Params& params, int64_t row, int32_t head) {
    const DeltaShape& shape = params.shape;
    const int64_t key_head = shape.tiled_values ? head % shape.key_heads : head / (shape.value_heads / shape.key_heads);
    const int64_t keys = int64_t{shape.key_heads} * shape.key_dim;
    const float* queries = params.in + (row * shape.channels() + key_head * shape.key_dim);
    const float* values = params.in + (row * shape.channels() + 2 * keys + int64_t{head} * shape.value_dim);
    const int64_t gate_stride = params.gates_stride > 0 ? params.gates_stride : 2 * int64_t{shape.value_heads};
    const float* gates = params.gates + (row * gate_stride + head);
    return {queries + keys, queries, values, shape.channels(), gates, shape.value_heads, gate_stride};
  }
  // Sums of squares of what is written and read.
  DUNLIN_HD static RowFactors FactorsOf(const Params& params, int32_t head, const float* gates, float write_squares,
                                        float read_squares) {
    const float step = Softplus(gates[1] + params.dt_bias[head]);
    return FactorsOfDecay(params, expf(-params.rate[head] * step), gates[0], write_squares, read_squares);
  }
  DUNLIN_HD static RowFactors FactorsOfDecay(const Params& params, float decay, float gate, float write_squares,
                                             float read_squares) {
    constexpr float kLengthEpsilon = 1e-6F;
    const float beta = params.beta_scale / (1.0F + expf(-gate));
    const float key_scale = 1.0F / sqrtf(write_squares + kLengthEpsilon);
    const float query_factor = 1.0F / sqrtf(static_cast<float>(params.shape.key_dim));
    return {decay, key_scale * decay, beta * key_scale, query_factor / sqrtf(read_squares + kLengthEpsilon)};
  }
  DUNLIN_HD static float Skip(const Params& /*params*/, int32_t /*head*/) { return 0.0F; }
  DUNLIN_HD static float Update(const RowFactors& factors, float value, float stored) {
    return (value - stored * factors.read) * factors.write;
  }
  DUNLIN_HD static float Output(const RowFactors& factors, float sum, float /*skip*/, float /*value*/) {
    return sum * factors.out;
  }
};

// With DeltaScanParams::steps: read_factor S^T write is of the state after its decay.
struct ChannelDeltaRule : DeltaRule {
  static constexpr bool kRowDecays = true;
  static constexpr int kGates = 1;

  // Of row `state_row` of a head's state, at a row of the call.
  DUNLIN_HD static float DecayOf(const Params& params, int64_t row, int32_t head, int32_t state_row) {
    const int64_t at = int64_t{head} * params.shape.key_dim + state_row;
    const int64_t step = row * params.shape.value_heads * params.shape.key_dim + at;
    const float in = params.steps[step] + params.dt_bias[at];
    if (params.decay_bound < 0.0F) return expf(params.decay_bound / (1.0F + expf(-params.rate[head] * in)));
    return expf(-params.rate[head] * Softplus(in));
  }
  DUNLIN_HD static RowFactors FactorsOf(const Params& params, int32_t /*head*/, const float* gates, float write_squares,
                                        float read_squares) {
    return FactorsOfDecay(params, 1.0F, gates[0], write_squares, read_squares);
  }
};

struct SsmRule {
  using Params = SsmScanParams;
  static constexpr bool kReadsFirst = false;
  static constexpr bool kRowDecays = false;
  static constexpr int kGates = 1;

  DUNLIN_HD static ScanShape ShapeOf(const Params& params) {
    const SsmShape& shape = params.shape;
    return {shape.num_heads, shape.state_dim, shape.head_dim, SsmHeadFloats(shape)};
  }
  DUNLIN_HD static ScanRows RowsOf(const Params& params, int64_t row, int32_t head) {
    const SsmShape& shape = params.shape;
    const int64_t group = head / (shape.num_heads / shape.num_groups);
    const float* in = params.in + row * shape.channels();
    const float* b = in + (shape.features() + group * shape.state_dim);
    const float* steps = params.step + (row * params.step_stride + head);
    return {b,
            b + int64_t{shape.num_groups} * shape.state_dim,
            in + int64_t{head} * shape.head_dim,
            shape.channels(),
            steps,
            0,
            params.step_stride};
  }
  // NaN stays NaN.
  DUNLIN_HD static RowFactors FactorsOf(const Params& params, int32_t head, const float* gates, float /*write_squares*/,
                                        float /*read_squares*/) {
    const float step = Softplus(gates[0] + params.step_bias[head]);
    const float least = step < params.step_min ? params.step_min : step;
    const float clamped = least > params.step_max ? params.step_max : least;
    return {expf(-params.rate[head] * clamped), 0.0F, clamped, 1.0F};
  }
  DUNLIN_HD static float Skip(const Params& params, int32_t head) { return params.skip[head]; }
  DUNLIN_HD static float Update(const RowFactors& factors, float value, float /*stored*/) {
    return value * factors.write;
  }
  DUNLIN_HD static float Output(const RowFactors& /*factors*/, float sum, float skip, float value) {
    return fmaf(skip, value, sum);
  }
};

}  // namespace dunlin::kernels::cuda
