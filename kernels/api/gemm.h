// out = A W^T for linear layers, W packed once at load in a layout that only the device knows.
//
// Bit contract: every output element is one sum over K whose order the weight's shape fixes, and on some devices the
// phase (GemmParams::decode_rows). So a row has the same bits for M = 1 and M = 2048. On the CPU it is one chain in
// ascending order: threads split rows and columns, never K.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/api/dtype.h"

namespace dunlin::kernels {

// FP8: the K elements that share a scale within a row where a whole row does not share one (block-scaled weights).
// Source: DeepSeek-V3 report, section 3.3.2: weights in 128 x 128 blocks, activations in 1 x 128 groups.
inline constexpr int32_t kScaleBlock = 128;

// Scales of one FP8 row. scale_block: 0 (one for the row) or kScaleBlock; the last block of a row may be partial.
constexpr int64_t ScalesPerRow(int32_t scale_block, int64_t in_features) {
  return scale_block == 0 ? 1 : (in_features + scale_block - 1) / scale_block;
}

// A weight matrix [out_features, in_features] in device memory. One layout serves M = 1 and M = 2048, and row gather.
struct PackedWeight {
  void* data = nullptr;  // device memory of DeviceOps::packed_weight_bytes, 64-byte aligned; includes FP8 scales
  Precision precision = Precision::kFp32;
  int64_t out_features = 0;  // N
  int64_t in_features = 0;   // K
  int32_t scale_block = 0;   // FP8: 0 or kScaleBlock; 0 otherwise
  // Feature n of the first N / 2 goes through an activation and gates feature n + N / 2 (SwiGLU and its kin); N is
  // even.
  bool gated = false;
};

// Writes rows [row_begin, row_begin + num_rows) of a packed weight from a plain matrix in host memory.
// FP8 from wider dtypes: each row is scaled by amax / 448 (1 for a zero row), rounded to nearest even, saturating;
// the weight's scale_block must be 0.
// FP8 from FP8: codes and scales are kept as they are, and the scale blocks must be equal.
// Other precisions from FP8: code * scale in FP32, then rounded.
struct PackWeightParams {
  PackedWeight* weight;
  const void* source;     // element (n, k) of the part at source[n * row_stride + k * column_stride]
  DType source_dtype;     // any
  int64_t row_stride;     // elements
  int64_t column_stride;  // elements; row_stride and column_stride swap for a transposed (Conv1D) source
  int64_t row_begin;      // first output feature written: fused QKV is packed part by part
  int64_t num_rows;
  const float* source_scales = nullptr;  // kF8E4M3: [num_rows, ScalesPerRow(source_scale_block, in_features)]
  int32_t source_scale_block = 0;        // kF8E4M3: 0 or kScaleBlock
};

// Where an FP8 input takes its scale from; value = code * scale, code = round(value * (1 / scale)), saturated.
enum class InputScaling : uint8_t {
  kPerRow,   // amax / 448 of each row (or of each kScaleBlock of it): independent of the other rows
  kGiven,    // *shared_scale, of all rows
  kCurrent,  // amax / 448 over all rows of the call, written to *shared_scale
};

// GEMM input rows in the form that a precision multiplies; layout private to the device.
// CPU: fp32 and fp16 hold FP32 values, bf16 holds values rounded to BF16, fp8 holds E4M3 values, widened, and FP32
// scales: one a row, or one for each kScaleBlock columns of a row.
// The fields from amax_limit on are read by the operations that fill it, not by the GEMM: that takes the scale that the
// rows were quantised with.
struct Activation {
  void* data = nullptr;  // DeviceOps::activation_bytes(precision, capacity_rows, columns), 64-byte aligned
  Precision precision = Precision::kFp32;
  int32_t capacity_rows = 0;
  int32_t columns = 0;      // K
  int32_t scale_block = 0;  // FP8: the weight's
  // FP8, kPerRow: magnitudes above this do not widen a scale; they saturate (activation_scale_ub of fbgemm
  // checkpoints). > 0.
  float amax_limit = std::numeric_limits<float>::infinity();
  InputScaling scaling = InputScaling::kPerRow;  // FP8; another than kPerRow needs scale_block 0
  // One FP32 in device memory; FP8 with kGiven or kCurrent. kGiven: finite, > 0. kCurrent: 1 / FactorFromAmax
  // (fp8_scale.h).
  float* shared_scale = nullptr;
  // One FP32 in device memory, >= 0, or null: becomes the maximum of itself and of |x| over the rows before rounding,
  // in any precision. NaN counts above infinity, and infinity above numbers.
  float* amax = nullptr;
};

enum class ActivationKind : uint8_t { kGeluTanh, kGeluErf, kRelu, kSilu };

struct RotateAndStoreKvParams;  // layer_ops.h

// out[m, n] = sum_k in[m, k] * weight[n, k] + bias[n] + residual[m, n]; or, where `next` is given, with x[m, n] the
// same without residual, next[m, n] = activation(x[m, n]), of a gated weight activation(x[m, n]) * x[m, n + N / 2].
struct GemmParams {
  const Activation* in;  // num_rows rows valid; precision, columns and scale_block equal the weight's
  const PackedWeight* weight;
  const float* bias;      // [N] or null
  const float* residual;  // [num_rows, N], rows out_stride apart, or null, as of a gated weight; may be out itself
  float* out;             // [num_rows, N]
  int64_t out_stride;     // floats, >= N
  int32_t num_rows;       // >= 0
  // The first of the rows, <= num_rows, that decode; the rest are prefill. The phase may choose a row's sums, the
  // number of rows never does: DeviceOps::prefill_matches_decode.
  int32_t decode_rows = 0;
  // The input of the product behind an activation, filled as DeviceOps::activate fills it, without a pass of its own;
  // then out and residual are null, and out_stride is not read. columns == N, of a gated weight N / 2; memory apart
  // from `in`. Only where DeviceOps::gemm_fuses says so.
  Activation* next = nullptr;
  ActivationKind activation = ActivationKind::kGeluTanh;  // read where next is given
  // The columns are heads of Q, K and V, which are rotated, and K and V written into pages, as
  // DeviceOps::rotate_and_store_kv does with `out`, without a pass of its own: then heads->qkv is out, whose columns of
  // K and V are left as they are, and residual and next are null. Only where DeviceOps::gemm_fuses says so.
  const RotateAndStoreKvParams* heads = nullptr;
  // Off: the number of rows may choose a row's sums too, where that is quicker. The bit contract is then void.
  bool deterministic = true;
};

// out[i, :] = weight[ids[i], :] * scale in FP32 (FP8: dequantised), added to what is there when accumulate is set.
struct GatherRowsParams {
  const PackedWeight* weight;
  const int32_t* ids;  // [num_rows], 0 <= id < weight->out_features
  float* out;          // [num_rows, K], contiguous
  int32_t num_rows;
  bool accumulate;
  float scale = 1.0F;
};

}  // namespace dunlin::kernels
