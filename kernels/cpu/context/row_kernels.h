// SPDX-License-Identifier: Apache-2.0
// The row kernels of the CPU variants: norms, activations and rounding over the n elements of one row.
// Bit contract: a result depends on its own row alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/layer_ops.h"

namespace dunlin::kernels::cpu {

struct NormMoments {
  float mean;     // 0 for RMSNorm
  float inv_std;  // 1 / sqrt(variance + epsilon); for RMSNorm of the mean square
};

// scores[s] = sum over heads of weights[h] * max(sum over d of queries[h][d] * keys[d][s], 0), each sum in order from
// 0, for sixteen keys. Without weights scores[h][s] is the sum over d of each head.
struct IndexScores {
  const float* keys;     // [dim, 16]
  const float* queries;  // [num_heads, dim]
  const float* weights;  // [num_heads] or null
  int32_t num_heads;
  int32_t dim;
  float* scores;  // [16]; without weights [num_heads, 16]
};

struct RowKernels {
  NormMoments (*norm_moments)(NormKind, const float* in, int64_t n, float epsilon);
  void (*normalize)(const float* in, NormMoments, const float* weight, const float* bias, int64_t n, float* out);
  void (*activate)(ActivationKind, const float* in, const float* gated_by, int64_t n, float* out);  // gated_by: or null
  void (*softcap)(float cap, int64_t n, float* values);               // in place; error within 2.5e-7 of cap
  void (*sigmoid_gate)(const float* gate, int64_t n, float* values);  // values = values * sigmoid(gate)
  void (*index_scores)(const IndexScores&);
  // Bits of the largest magnitude: NaN above infinity above all numbers.
  uint32_t (*max_magnitude_bits)(const float* in, int64_t n);

  // Rounding to nearest even, bit for bit as kernels/api/float_formats.h. in may have any alignment.
  void (*to_bf16)(const float* in, int64_t n, uint16_t* out);
  void (*to_fp16)(const float* in, int64_t n, uint16_t* out);
  void (*to_e4m3)(const float* in, float factor, int64_t n, uint8_t* out);  // of in * factor

  // The same roundings into an activation row, in the element type that the variant's GEMM multiplies. in may be row.
  size_t bf16_row_bytes;  // of an element of a bf16 or fp8 row: 2 for BF16, 4 for the same value as a float
  void (*bf16_row)(const float* in, int64_t n, void* row);
  void (*fp8_row)(const float* in, float factor, int64_t n, void* row);
};

extern const RowKernels kPortableRows;
extern const RowKernels kAvx2Rows;
extern const RowKernels kNeonRows;
extern const RowKernels kNeonBf16Rows;  // of kNeonRows, with BF16 activation rows
extern const RowKernels kAvx512Rows;
extern const RowKernels kAvx512Bf16Rows;  // of kAvx512Rows, with BF16 activation rows

}  // namespace dunlin::kernels::cpu
