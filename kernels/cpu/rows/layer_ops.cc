// SPDX-License-Identifier: Apache-2.0
// Norm, quantise and activate: one pass per row from FP32 to the format that the next GEMM reads. An operation
// produces its row as floats in the activation itself, where it is then rounded.
#include "kernels/cpu/rows/layer_ops.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/activation/fp8_scale.h"
#include "kernels/cpu/activation/round_columns.h"
#include "kernels/cpu/context/round_up.h"
#include "kernels/cpu/context/row_tasks.h"
#include "kernels/shared/fp8_scale.h"

namespace dunlin::kernels::cpu {
namespace {

// Quantises a row, one scale for each block of columns. `values` may be the row itself: a block's codes end before the
// next block's values begin.
void QuantizeRow(const KernelTable& kernels, const Activation& out, int64_t row, const float* values) {
  const int64_t block = out.scale_block == 0 ? out.columns : out.scale_block;
  std::byte* codes = ActivationRow(out, row);
  float* scales = ActivationScales(out, row);
  for (int64_t first = 0; first < out.columns; first += block) {
    const int64_t count = std::min<int64_t>(block, out.columns - first);
    const uint32_t largest = kernels.max_magnitude_bits(values + first, count);
    const Fp8Scale scale = ScaleOfRow(LimitMagnitude(largest, out.amax_limit));
    *scales++ = scale.scale;
    kernels.fp8_row(values + first, scale.factor, count, codes + static_cast<size_t>(first) * kernels.bf16_row_bytes);
  }
}

// Rounds `values` into row `row` of an activation, with the zeros after it. shared: the scale of all rows, or null.
void RoundRow(const KernelTable& kernels, const Activation& out, int64_t row, const float* values,
              const Fp8Scale* shared) {
  if (out.precision != Precision::kFp8) return RoundColumns(kernels, out, row, 0, out.columns, values);
  if (shared != nullptr) {
    *ActivationScales(out, row) = shared->scale;
    kernels.fp8_row(values, shared->factor, out.columns, ActivationRow(out, row));
  } else {
    QuantizeRow(kernels, out, row, values);
  }
  PadRow(kernels, out, row);
}

// *amax = max(*amax, the magnitude of these bits), by any number of threads: a maximum has no order.
void RaiseAmax(float* amax, uint32_t magnitude_bits) {
  std::atomic_ref<float> shared(*amax);
  float seen = shared.load(std::memory_order_relaxed);
  while (std::bit_cast<uint32_t>(seen) < magnitude_bits &&
         !shared.compare_exchange_weak(seen, std::bit_cast<float>(magnitude_bits), std::memory_order_relaxed)) {
  }
}

// Two passes: the rows stay floats until the largest magnitude of all of them is known.
template <typename Produce, typename Locate>
void FillAtCurrentScale(DeviceContext* context, const Activation& out, int32_t num_rows, const Produce& produce,
                        const Locate& locate) {
  const KernelTable& kernels = context->kernels;
  float amax = 0.0F;
  ForEachRow(context, num_rows, out.columns, [&](int64_t row) {
    const float* values = produce(row, reinterpret_cast<float*>(ActivationRow(out, row)));
    RaiseAmax(&amax, kernels.max_magnitude_bits(values, out.columns));
  });
  if (out.amax != nullptr) RaiseAmax(out.amax, std::bit_cast<uint32_t>(amax));
  const Fp8Scale scale = GivenScale(1.0F / FactorFromAmax(amax));  // the bits that giving this scale would make
  *out.shared_scale = scale.scale;
  ForEachRow(context, num_rows, out.columns, [&](int64_t row) {
    RoundRow(kernels, out, row, locate(row, reinterpret_cast<float*>(ActivationRow(out, row))), &scale);
  });
}

// Fills rows of an activation. produce(row, buffer) computes a row as floats, in `buffer` or where it returns;
// locate(row, buffer) says where it is afterwards.
template <typename Produce, typename Locate>
void FillRows(DeviceContext* context, const Activation& out, int32_t num_rows, const Produce& produce,
              const Locate& locate) {
  const InputScaling scaling = out.precision == Precision::kFp8 ? out.scaling : InputScaling::kPerRow;
  if (scaling == InputScaling::kCurrent) return FillAtCurrentScale(context, out, num_rows, produce, locate);
  const KernelTable& kernels = context->kernels;
  const bool given = scaling == InputScaling::kGiven;
  const Fp8Scale scale = given ? GivenScale(*out.shared_scale) : Fp8Scale{};
  ForEachRow(context, num_rows, out.columns, [&](int64_t row) {
    const float* values = produce(row, reinterpret_cast<float*>(ActivationRow(out, row)));
    if (out.amax != nullptr) RaiseAmax(out.amax, kernels.max_magnitude_bits(values, out.columns));
    RoundRow(kernels, out, row, values, given ? &scale : nullptr);
  });
}

// Computes rows with compute(row, buffer) into rows_out, or the activation, or both.
template <typename Compute>
void ComputeRows(DeviceContext* context, const Activation& out, float* rows_out, int32_t num_rows,
                 const Compute& compute) {
  const int64_t columns = out.columns;
  if (out.data == nullptr) {
    ForEachRow(context, num_rows, columns, [&](int64_t row) { compute(row, rows_out + row * columns); });
    return;
  }
  const auto produce = [&](int64_t row, float* buffer) {
    compute(row, buffer);
    if (rows_out != nullptr) {
      std::memcpy(rows_out + row * columns, buffer, static_cast<size_t>(columns) * sizeof(float));
    }
    return buffer;
  };
  FillRows(context, out, num_rows, produce, [](int64_t, float* buffer) { return buffer; });
}

bool Valid(const Activation* out, const float* in, int32_t num_rows, const float* rows_out) {
  if (out == nullptr || out->columns <= 0 || in == nullptr || num_rows < 0) return false;
  if (out->data == nullptr) return rows_out != nullptr;
  const bool shares = out->precision == Precision::kFp8 && out->scaling != InputScaling::kPerRow;
  if (shares && (out->shared_scale == nullptr || out->scale_block != 0)) return false;
  return num_rows <= out->capacity_rows;
}

// out = (the normed row + the residual's, which may be out) * factor: in pieces that fit a buffer here.
void NormalizeOnto(const KernelTable& kernels, const float* in, const NormMoments& moments, const NormParams& params,
                   const float* residual, int64_t columns, float* out) {
  constexpr int64_t kPiece = 512;
  const float factor = params.factor == nullptr ? 1.0F : *params.factor;
  float normed[kPiece];
  for (int64_t first = 0; first < columns; first += kPiece) {
    const int64_t count = std::min(kPiece, columns - first);
    const float* bias = params.bias == nullptr ? nullptr : params.bias + first;
    kernels.normalize(in + first, moments, params.weight + first, bias, count, normed);
    for (int64_t i = 0; i < count; ++i) out[first + i] = (residual[first + i] + normed[i]) * factor;
  }
}

}  // namespace

KernelStatus Norm(DeviceContext* context, const NormParams& params) {
  if (!Valid(params.out, params.in, params.num_rows, params.rows_out)) return KernelStatus::kInvalidArgument;
  if (params.weight == nullptr || (params.factor != nullptr && params.residual == nullptr)) {
    return KernelStatus::kInvalidArgument;
  }
  if (params.rows_out == params.in && params.rows != nullptr) return KernelStatus::kInvalidArgument;
  const KernelTable& kernels = context->kernels;
  const int64_t columns = params.out->columns;
  ComputeRows(context, *params.out, params.rows_out, params.num_rows, [&](int64_t row, float* buffer) {
    const float* in = params.in + (params.rows == nullptr ? row : params.rows[row]) * columns;
    const NormMoments moments = kernels.norm_moments(params.kind, in, columns, params.epsilon);
    if (params.residual == nullptr) {
      kernels.normalize(in, moments, params.weight, params.bias, columns, buffer);
    } else {
      NormalizeOnto(kernels, in, moments, params, params.residual + row * columns, columns, buffer);
    }
  });
  return KernelStatus::kOk;
}

KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params) {
  if (params.values == nullptr || !(params.cap > 0.0F) || params.num_rows < 0 || params.columns < 1) {
    return KernelStatus::kInvalidArgument;
  }
  // Cut by elements, not rows: a decode step's one row may be a vocabulary of 256k.
  const int64_t count = int64_t{params.num_rows} * params.columns;
  context->pool.Run((count + kTaskElements - 1) / kTaskElements, [&](int64_t task, int) {
    const int64_t first = task * kTaskElements;
    context->kernels.softcap(params.cap, std::min(kTaskElements, count - first), params.values + first);
  });
  return KernelStatus::kOk;
}

KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params) {
  if (!Valid(params.out, params.in, params.num_rows, nullptr)) return KernelStatus::kInvalidArgument;
  if (params.in_stride < params.out->columns) return KernelStatus::kInvalidArgument;
  const auto row_in = [&](int64_t row, float*) {
    return params.in + (params.rows == nullptr ? row : params.rows[row]) * params.in_stride;
  };
  FillRows(context, *params.out, params.num_rows, row_in, row_in);
  return KernelStatus::kOk;
}

namespace {

// As ActivateParams says. NaN stays NaN.
void ActivateWithin(const RowKernels& kernels, const ActivateParams& params, const float* in, int64_t columns,
                    float* out) {
  const float* gate = in;
  if (params.cuts_before) {
    for (int64_t i = 0; i < columns; ++i) out[i] = std::min(in[i], params.limit);
    gate = out;
  }
  kernels.activate(params.kind, gate, nullptr, columns, out);
  const float most = params.cuts_before ? std::numeric_limits<float>::infinity() : params.limit;
  for (int64_t i = 0; i < columns; ++i) {
    out[i] = std::min(out[i], most) * std::clamp(in[columns + i], -params.limit, params.limit);
  }
}

// NaN stays NaN.
void ActivateXielu(const float* curve, const float* in, int64_t columns, float* out) {
  for (int64_t i = 0; i < columns; ++i) {
    const float x = in[i];
    const float term = x > 0.0F ? curve[0] * x * x : (std::expm1(std::min(x, curve[3])) - x) * (curve[1] + curve[2]);
    out[i] = term + curve[2] * x;
  }
}

}  // namespace

KernelStatus Activate(DeviceContext* context, const ActivateParams& params) {
  if (!Valid(params.out, params.in, params.num_rows, params.rows_out)) return KernelStatus::kInvalidArgument;
  if (params.rows_out == params.in && params.gated) return KernelStatus::kInvalidArgument;
  if (!ValidShape(params)) return KernelStatus::kInvalidArgument;
  const int64_t columns = params.out->columns;
  const int64_t in_stride = params.gated ? 2 * columns : columns;
  ComputeRows(context, *params.out, params.rows_out, params.num_rows, [&](int64_t row, float* buffer) {
    const float* in = params.in + row * in_stride;
    if (params.limit > 0.0F) return ActivateWithin(context->kernels, params, in, columns, buffer);
    if (params.curve != nullptr) return ActivateXielu(params.curve, in, columns, buffer);
    context->kernels.activate(params.kind, in, params.gated ? in + columns : nullptr, columns, buffer);
  });
  return KernelStatus::kOk;
}

KernelStatus Add(DeviceContext* context, const AddParams& params) {
  if (params.rows == nullptr || params.num_rows < 0 || params.columns <= 0) return KernelStatus::kInvalidArgument;
  const int64_t columns = params.columns;
  ForEachRow(context, params.num_rows, columns, [&](int64_t row) {
    float* values = params.rows + row * columns;
    const float* residual = params.residual == nullptr ? nullptr : params.residual + row * columns;
    for (int64_t i = 0; params.bias != nullptr && i < columns; ++i) values[i] += params.bias[i];
    for (int64_t i = 0; residual != nullptr && i < columns; ++i) values[i] += residual[i];
    for (int64_t i = 0; params.factor != nullptr && i < columns; ++i) values[i] *= *params.factor;
  });
  return KernelStatus::kOk;
}

KernelStatus CopyRows(DeviceContext* context, const CopyRowsParams& params) {
  const bool some = params.num_rows > 0;
  if (params.num_rows < 0 || params.columns <= 0 || params.in_stride < params.columns ||
      (some && (params.in == nullptr || params.rows == nullptr || params.out == nullptr))) {
    return KernelStatus::kInvalidArgument;
  }
  const int64_t columns = params.columns;
  ForEachRow(context, params.num_rows, columns, [&](int64_t row) {
    std::memcpy(params.out + row * columns, params.in + params.rows[row] * params.in_stride,
                static_cast<size_t>(columns) * sizeof(float));
  });
  return KernelStatus::kOk;
}

KernelStatus CopyColumns(DeviceContext* context, const CopyColumnsParams& params) {
  const bool some = params.num_rows > 0;
  const int64_t width = (params.num_blocks - 1) * params.out_block_stride + params.columns;
  if (params.num_rows < 0 || params.num_blocks < 1 || params.columns < 1 || params.in_stride < 0 ||
      params.in_block_stride < 0 || params.out_stride < width ||
      (params.num_blocks > 1 && params.out_block_stride < params.columns) ||
      (some && (params.in == nullptr || params.out == nullptr))) {
    return KernelStatus::kInvalidArgument;
  }
  ForEachRow(context, params.num_rows, int64_t{params.num_blocks} * params.columns, [&](int64_t row) {
    for (int64_t block = 0; block < params.num_blocks; ++block) {
      std::memcpy(params.out + row * params.out_stride + block * params.out_block_stride,
                  params.in + row * params.in_stride + block * params.in_block_stride,
                  static_cast<size_t>(params.columns) * sizeof(float));
    }
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
