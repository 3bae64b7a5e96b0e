// SPDX-License-Identifier: Apache-2.0
// out = A W^T for linear layers. W is packed once at load, in a layout private to the device.
//
// Bit contract: every output element is one sum over K whose order depends only on the weight's shape and, on some
// devices, the phase (GemmParams::decode_rows), so a row has the same bits for M = 1 and M = 2048. On the CPU the sum
// is one chain in ascending order: threads split rows and columns, never K.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/api/dtype.h"
#include "kernels/api/input_scaling.h"
#include "kernels/api/weight_codes.h"

namespace dunlin::kernels {

// FP8, block-scaled: the number of consecutive K elements of a row that share a scale.
// Source: DeepSeek-V3 report, section 3.3.2: weights in 128 x 128 blocks, activations in 1 x 128 groups.
inline constexpr int32_t kScaleBlock = 128;

// Scales of one FP8 row. scale_block: 0 (one scale per row) or kScaleBlock; the last block of a row may be partial.
constexpr int64_t ScalesPerRow(int32_t scale_block, int64_t in_features) {
  return scale_block == 0 ? 1 : (in_features + scale_block - 1) / scale_block;
}

// A weight matrix [out_features, in_features] in device memory. One layout serves GEMM with any M and row gather.
struct PackedWeight {
  void* data = nullptr;  // device memory of DeviceOps::packed_weight_bytes, 64-byte aligned; includes the scales
  Precision precision = Precision::kFp32;  // of the activations that it is multiplied with: Traits(format).compute
  int64_t out_features = 0;                // N
  int64_t in_features = 0;                 // K
  int32_t scale_block = 0;                 // FP8: 0 or kScaleBlock; 0 otherwise
  // Feature n < N / 2 goes through the activation and gates feature n + N / 2 (SwiGLU and variants); N is even.
  bool gated = false;
  WeightFormat format = Traits(precision).format;
  // Formats with groups: products round their input once more, each `group` elements of K of a row to
  // integers in [-127, 127] and one FP32 scale, amax / 127; sums within a group are then exact. What is packed is the
  // same. Must be false on devices other than the CPU, and for formats without groups.
  bool int8_inputs = false;
};

// Writes rows [row_begin, row_begin + num_rows) of a packed weight from a plain matrix in host memory.
// FP8 from wider dtypes: one scale per row, amax / 448 (1 for a zero row); codes round to nearest even and saturate;
// the weight's scale_block must be 0. FP8 from FP8: codes and scales are kept, and the scale blocks must be equal.
// Other formats from FP8: code * scale in FP32, then rounded.
// INT8, INT4: groups of 32 elements of K, rounded by kernels/api/group_rounding.h.
// From integer codes: `codes` in place of source, to a format that holds them; source, source_dtype, the strides and
// the scales are not read then.
struct PackWeightParams {
  PackedWeight* weight;
  const void* source;     // host memory; element (n, k) of these rows is source[n * row_stride + k * column_stride]
  DType source_dtype;     // any
  int64_t row_stride;     // elements
  int64_t column_stride;  // elements; row_stride and column_stride swap for a transposed (Conv1D) source
  int64_t row_begin;      // first output feature written: a fused QKV weight is packed in three calls
  int64_t num_rows;
  const float* source_scales = nullptr;  // kF8E4M3: [num_rows, ScalesPerRow(source_scale_block, in_features)]
  int32_t source_scale_block = 0;        // kF8E4M3: 0 or kScaleBlock
  const WeightCodes* codes = nullptr;    // num_rows rows of in_features elements; REQUIRES: Holds(weight->format, ...)
};

// GEMM input rows, converted for a precision; the layout is private to the device.
// CPU: fp32 and fp16 hold FP32 values, bf16 holds values rounded to BF16, fp8 holds widened E4M3 values and FP32
// scales, one per row or per kScaleBlock columns of a row. The fields from amax_limit on are read by the operations
// that fill it, not by the GEMM, which uses the scales that the rows were quantised with.
struct Activation {
  void* data = nullptr;  // DeviceOps::activation_bytes(precision, capacity_rows, columns), 64-byte aligned
  Precision precision = Precision::kFp32;
  int32_t capacity_rows = 0;
  int32_t columns = 0;      // K
  int32_t scale_block = 0;  // FP8: the weight's
  // FP8, kPerRow: an upper bound on the amax of a scale; magnitudes above it saturate (activation_scale_ub of fbgemm
  // checkpoints). > 0.
  float amax_limit = std::numeric_limits<float>::infinity();
  InputScaling scaling = InputScaling::kPerRow;  // FP8; kGiven and kCurrent need scale_block 0
  // One FP32 in device memory, for kGiven and kCurrent. kGiven: finite, > 0. kCurrent: set to 1 / FactorFromAmax
  // (fp8_scale.h).
  float* shared_scale = nullptr;
  // One FP32 in device memory, >= 0, or null: raised to the largest |x| of the rows before rounding, in any precision.
  // NaN counts as larger than infinity.
  float* amax = nullptr;
};

// kReluSquared: max(x, 0)^2 (So et al. 2021).
// kClampedSwish (GPT-OSS): c * sigmoid(1.702 c) with c = min(x, 7), and a gate u stands for clamp(u, -7, 7) + 1.
enum class ActivationKind : uint8_t { kGeluTanh, kGeluErf, kRelu, kSilu, kReluSquared, kClampedSwish };
inline constexpr float kClampedSwishSlope = 1.702F;
inline constexpr float kClampedSwishLimit = 7.0F;

struct RotateAndStoreKvParams;  // layer_ops.h

// out[m, n] = x[m, n] + residual[m, n], where x[m, n] = sum_k in[m, k] * weight[n, k] + bias[n]. With `next`:
// next[m, n] = activation(x[m, n]), or activation(x[m, n]) * x[m, n + N / 2] for a gated weight.
struct GemmParams {
  const Activation* in;  // num_rows rows valid; precision, columns and scale_block equal the weight's
  const PackedWeight* weight;
  const float* bias;      // [N] or null
  const float* residual;  // [num_rows, N], rows out_stride apart, or null; null for a gated weight; may be `out`
  float* out;             // [num_rows, N]
  int64_t out_stride;     // floats, >= N
  int32_t num_rows;       // >= 0
  // The first decode_rows rows, <= num_rows, are decode; the rest are prefill. The order of a row's sum may depend on
  // its phase (DeviceOps::prefill_matches_decode), not on the number of rows.
  int32_t decode_rows = 0;
  // Fused with DeviceOps::activate: writes the next GEMM's input, [num_rows, N] or [num_rows, N / 2] for a gated
  // weight, in place of `out`; then out and residual are null and out_stride is not read. Must not alias `in`. Only
  // where DeviceOps::gemm_fuses says so.
  Activation* next = nullptr;
  ActivationKind activation = ActivationKind::kGeluTanh;  // read where next is given
  // Fused with DeviceOps::rotate_and_store_kv: heads->qkv is `out`, residual and next are null. K and V go to their
  // pages only; their columns of `out` are not written. Only where DeviceOps::gemm_fuses says so.
  const RotateAndStoreKvParams* heads = nullptr;
  // False: the order of a row's sum may also depend on the number of rows, where that is faster; the bit contract does
  // not hold then.
  bool deterministic = true;
};

// out[i, :] = weight[ids[i], :] * scale in FP32 (FP8: dequantised); with accumulate, added to out[i, :].
struct GatherRowsParams {
  const PackedWeight* weight;
  const int32_t* ids;  // [num_rows], 0 <= id < weight->out_features
  float* out;          // [num_rows, K], contiguous
  int32_t num_rows;
  bool accumulate;
  float scale = 1.0F;
};

}  // namespace dunlin::kernels
