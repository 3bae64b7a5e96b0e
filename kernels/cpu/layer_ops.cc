// Norm, quantise and activate: one pass per row from FP32 to the form that the next GEMM multiplies. An operation
// produces its row as floats in the activation itself; FillRow then rounds it there.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/activation_layout.h"
#include "kernels/cpu/fp8_scale.h"
#include "kernels/cpu/launchers.h"
#include "kernels/cpu/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kTaskElements = 1 << 14;

// body(row) for every row, several rows to a task.
template <typename Body>
void ForEachRow(DeviceContext* context, int64_t num_rows, int64_t columns, const Body& body) {
  const int64_t rows_per_task = std::max<int64_t>(1, kTaskElements / columns);
  context->pool.Run((num_rows + rows_per_task - 1) / rows_per_task, [&](int64_t task, int) {
    const int64_t end = std::min(num_rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) body(row);
  });
}

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

// Fills row `row` of an activation and the zeros after it. produce(buffer) returns the row as floats, in `buffer` or
// where it already is.
template <typename Produce>
void FillRow(const KernelTable& kernels, const Activation& out, int64_t row, const Produce& produce) {
  const int64_t columns = out.columns;
  std::byte* target = ActivationRow(out, row);
  auto* floats = reinterpret_cast<float*>(target);
  const float* values = produce(floats);
  size_t element = sizeof(float);
  if (out.precision == Precision::kFp8) {
    QuantizeRow(kernels, out, row, values);
    element = kernels.bf16_row_bytes;
  } else if (out.precision == Precision::kBf16) {
    kernels.bf16_row(values, columns, target);
    element = kernels.bf16_row_bytes;
  } else if (values != floats) {
    std::memcpy(floats, values, static_cast<size_t>(columns) * sizeof(float));
  }
  const auto pad = static_cast<size_t>(RoundUp(columns, kActivationPad) - columns);
  std::memset(target + static_cast<size_t>(columns) * element, 0, pad * element);
}

bool Valid(const Activation* out, const float* in, int32_t num_rows) {
  return out != nullptr && out->data != nullptr && out->columns > 0 && in != nullptr && num_rows >= 0 &&
         num_rows <= out->capacity_rows;
}

}  // namespace

KernelStatus Norm(DeviceContext* context, const NormParams& params) {
  if (!Valid(params.out, params.in, params.num_rows) || params.weight == nullptr) return KernelStatus::kInvalidArgument;
  const KernelTable& kernels = context->kernels;
  const int64_t columns = params.out->columns;
  ForEachRow(context, params.num_rows, columns, [&](int64_t row) {
    const float* in = params.in + (params.rows == nullptr ? row : params.rows[row]) * columns;
    const NormMoments moments = kernels.norm_moments(params.kind, in, columns, params.epsilon);
    FillRow(kernels, *params.out, row, [&](float* buffer) {
      kernels.normalize(in, moments, params.weight, params.bias, columns, buffer);
      return buffer;
    });
  });
  return KernelStatus::kOk;
}

KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params) {
  if (!Valid(params.out, params.in, params.num_rows)) return KernelStatus::kInvalidArgument;
  if (params.in_stride < params.out->columns) return KernelStatus::kInvalidArgument;
  ForEachRow(context, params.num_rows, params.out->columns, [&](int64_t row) {
    const float* in = params.in + row * params.in_stride;
    FillRow(context->kernels, *params.out, row, [&](float*) { return in; });
  });
  return KernelStatus::kOk;
}

KernelStatus Activate(DeviceContext* context, const ActivateParams& params) {
  if (!Valid(params.out, params.in, params.num_rows)) return KernelStatus::kInvalidArgument;
  const int64_t columns = params.out->columns;
  const int64_t in_stride = params.gated ? 2 * columns : columns;
  ForEachRow(context, params.num_rows, columns, [&](int64_t row) {
    const float* in = params.in + row * in_stride;
    FillRow(context->kernels, *params.out, row, [&](float* buffer) {
      context->kernels.activate(params.kind, in, params.gated ? in + columns : nullptr, columns, buffer);
      return buffer;
    });
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
