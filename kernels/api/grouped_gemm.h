// SPDX-License-Identifier: Apache-2.0
// Several products in one operation: those of a mixture's experts, each with the rows that chose it, and those of a
// model's heads, each with all rows.
//
// Bit contract: a row has the bits that it has alone; gemm may give it others (a device may divide K otherwise there).
// On the CPU they are gemm's.
#pragma once

#include <cstdint>

#include "kernels/api/experts.h"
#include "kernels/api/gemm.h"

namespace dunlin::kernels {

// A matrix and what is added to its product.
struct BiasedWeight {
  PackedWeight weight;
  const float* bias = nullptr;  // FP32 [out_features] in device memory, or null
};

// Of one shape, format and rounding of inputs, and both with a bias or none.
constexpr bool AreAlike(const BiasedWeight& a, const BiasedWeight& b) {
  return a.weight.out_features == b.weight.out_features && a.weight.in_features == b.weight.in_features &&
         a.weight.precision == b.weight.precision && a.weight.format == b.weight.format &&
         a.weight.scale_block == b.weight.scale_block && a.weight.gated == b.weight.gated &&
         a.weight.int8_inputs == b.weight.int8_inputs && (a.bias == nullptr) == (b.bias == nullptr);
}

// The rows of group g are groups[g].count rows of `in` and of the output from row groups[g].first on; they are
// multiplied with weights[g]. Which rows those are is known on the device alone.
struct GroupedGemmParams {
  const Activation* in;         // num_rows rows valid
  const BiasedWeight* weights;  // [num_groups], host memory; alike
  int32_t num_groups;           // 1 to kExpertsMax
  const ExpertRows* groups;     // [num_groups], device memory; they cover rows [0, num_rows) once, in order
  float* out;                   // [num_rows, N], rows out_stride apart, or null with `next`
  int64_t out_stride;           // floats, >= N
  int32_t num_rows;             // >= 0
  // As GemmParams; only where DeviceOps::gemm_fuses says so of the product of one group.
  Activation* next = nullptr;
  ActivationKind activation = ActivationKind::kGeluTanh;
};

// out_b = round(in_b) W_b^T + bias_b for num_batches matrices: in_b begins at in + b * in_batch_stride, out_b at out +
// b * out_batch_stride.
struct BatchedGemmParams {
  const float* in;              // [num_rows, K] of each batch, rows in_stride apart
  int64_t in_stride;            // floats, >= K
  int64_t in_batch_stride;      // floats, >= 0
  const Activation* rounded;    // scratch for rounded rows, of the weights' precision, scale_block and K; capacity_rows
                                // >= num_rows; with more of them, a device may multiply more batches at once
  const BiasedWeight* weights;  // [num_batches], host memory; alike
  int32_t num_batches;          // > 0
  float* out;                   // [num_rows, N] of each batch, rows out_stride apart; must not overlap `in`
  int64_t out_stride;           // floats, >= N
  int64_t out_batch_stride;     // floats; batches must not overlap
  int32_t num_rows;             // >= 0
};

}  // namespace dunlin::kernels
