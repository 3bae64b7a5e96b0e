// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent layers of the CPU variants: some channels of a convolution, some columns of a head's state,
// over consecutive rows of one sequence. Contracts: kernels/api/recurrent.h.
// Bit contract: a channel and a column are computed alone, row by row, so that neither the rows of a call nor the
// channels or columns next to them change a result.
#pragma once

#include <cstdint>

#include "kernels/api/recurrent.h"
#include "kernels/api/ssm_scan.h"

namespace dunlin::kernels::cpu {

// out[c] = sum over j of weight[j][c] * taps[j][c], j ascending, and then + bias[c].
struct ConvRow {
  const float* taps[kConvTapsMax];
  const float* weight;  // [num_taps], rows weight_stride apart
  const float* bias;    // or null
  int64_t weight_stride;
  int32_t num_taps;
  int32_t num_channels;
  float* out;
};

// With s_i the rows of S, of num_rows rows in order, for each column:
//   u = beta (value - decay key_scale (sum_i key_i s_i)) key_scale;  s_i = decay s_i + key_i u;
//   out = query_scale (sum_i query_i s_i)
// With decayed_key each s_i has a decay of its own, and `decay key_i` is decayed_key_i.
// A sum runs in four parts, i modulo 4, each in ascending order, added as (0 + 1) + (2 + 3).
struct DeltaColumns {
  const float* query;  // of the first row; rows `stride` apart, as those of key and value
  const float* key;
  const float* value;
  int64_t stride;
  const float* decay;        // [num_rows], with decayed_key [num_rows, key_dim]
  const float* beta;         // [num_rows]
  const float* key_scale;    // [num_rows]
  const float* query_scale;  // [num_rows]
  float* state;              // [ceil(num_columns / kStateLanes), key_dim, kStateLanes]
  float* out;                // rows out_stride apart
  int64_t out_stride;
  int32_t num_rows;
  int32_t key_dim;
  int32_t num_columns;
  const float* decayed_key = nullptr;  // [num_rows, key_dim]
};

// With s_i the rows of S, of num_rows rows in order, for each column:
//   s_i = decay s_i + b_i (step x);  out = sum_i c_i s_i + skip x
// The sum runs as that of DeltaColumns.
struct SsmColumns {
  const float* x;  // of the first row; rows `stride` apart, as those of b and c
  const float* b;
  const float* c;
  int64_t stride;
  const float* decay;  // [num_rows]
  const float* step;   // [num_rows]
  float skip;
  float* state;  // [ceil(num_columns / kStateLanes), state_dim, kStateLanes]
  float* out;    // rows out_stride apart
  int64_t out_stride;
  int32_t num_rows;
  int32_t state_dim;
  int32_t num_columns;
};

struct RecurrentKernels {
  void (*conv_row)(const ConvRow&);
  void (*multiply_rows)(const float* a, const float* b, int64_t n, float* out);  // out may be a or b
  void (*delta_columns)(const DeltaColumns&);
  void (*ssm_columns)(const SsmColumns&);
  float (*sum_squares)(const float* in, int64_t n);
};

extern const RecurrentKernels kPortableRecurrent;
extern const RecurrentKernels kAvx2Recurrent;
extern const RecurrentKernels kNeonRecurrent;
extern const RecurrentKernels kAvx512Recurrent;

}  // namespace dunlin::kernels::cpu
