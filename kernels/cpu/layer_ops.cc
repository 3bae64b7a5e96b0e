// Norm, quantise and activate: one pass per row from FP32 to the form that the next GEMM multiplies. An operation
// produces a chunk of a row as floats; FillRow rounds it into the activation. A row wider than the scratch is produced
// twice for FP8, whose scale must be known first; the result is the same.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/activation_layout.h"
#include "kernels/cpu/fp8_scale.h"
#include "kernels/cpu/launchers.h"
#include "kernels/cpu/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kTaskElements = 1 << 14;

// body(row, scratch) for every row, several rows to a task.
template <typename Body>
void ForEachRow(DeviceContext* context, int64_t num_rows, int64_t columns, const Body& body) {
  const int64_t rows_per_task = std::max<int64_t>(1, kTaskElements / columns);
  context->pool.Run((num_rows + rows_per_task - 1) / rows_per_task, [&](int64_t task, int worker) {
    auto* scratch = reinterpret_cast<float*>(context->scratch(worker));
    const int64_t end = std::min(num_rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) body(row, scratch);
  });
}

// body(first, count) for the chunks of a row.
template <typename Body>
void ForEachChunk(int64_t columns, const Body& body) {
  for (int64_t first = 0; first < columns; first += kRowChunk) body(first, std::min(kRowChunk, columns - first));
}

template <typename Produce>
void FillFp8Row(const KernelTable& kernels, const Activation& out, int64_t row, float* scratch, const Produce& produce) {
  const int64_t columns = out.columns;
  auto* target = reinterpret_cast<uint16_t*>(ActivationRow(out, row));
  uint32_t largest = 0;
  const float* values = nullptr;
  ForEachChunk(columns, [&](int64_t first, int64_t count) {
    values = produce(first, count, scratch);
    largest = std::max(largest, kernels.max_magnitude_bits(values, count));
  });
  const Fp8Scale scale = ScaleOfRow(largest);
  ActivationScales(out)[row] = scale.scale;
  ForEachChunk(columns, [&](int64_t first, int64_t count) {
    if (columns > kRowChunk) values = produce(first, count, scratch);
    kernels.to_e4m3_in_bf16(values, scale.factor, count, target + first);
  });
}

// Fills row `row` of an activation and the zeros after it. produce(first, count, buffer) returns elements
// [first, first + count) of the row as floats, in `buffer` or wherever they already are.
template <typename Produce>
void FillRow(const KernelTable& kernels, const Activation& out, int64_t row, float* scratch, const Produce& produce) {
  const int64_t columns = out.columns;
  std::byte* target = ActivationRow(out, row);
  const size_t element = ActivationElementBytes(out.precision);
  const auto pad = static_cast<size_t>(RoundUp(columns, kActivationPad) - columns);
  std::memset(target + static_cast<size_t>(columns) * element, 0, pad * element);
  if (out.precision == Precision::kFp8) {
    FillFp8Row(kernels, out, row, scratch, produce);
  } else if (out.precision == Precision::kBf16) {
    ForEachChunk(columns, [&](int64_t first, int64_t count) {
      kernels.to_bf16(produce(first, count, scratch), count, reinterpret_cast<uint16_t*>(target) + first);
    });
  } else {
    auto* floats = reinterpret_cast<float*>(target);
    const float* values = produce(0, columns, floats);
    if (values != floats) std::memcpy(floats, values, static_cast<size_t>(columns) * sizeof(float));
  }
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
  ForEachRow(context, params.num_rows, columns, [&](int64_t row, float* scratch) {
    const float* in = params.in + (params.rows == nullptr ? row : params.rows[row]) * columns;
    const NormMoments moments = kernels.norm_moments(params.kind, in, columns, params.epsilon);
    FillRow(kernels, *params.out, row, scratch, [&](int64_t first, int64_t count, float* buffer) -> const float* {
      const float* bias = params.bias == nullptr ? nullptr : params.bias + first;
      kernels.normalize(in + first, moments, params.weight + first, bias, count, buffer);
      return buffer;
    });
  });
  return KernelStatus::kOk;
}

KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params) {
  if (!Valid(params.out, params.in, params.num_rows)) return KernelStatus::kInvalidArgument;
  if (params.in_stride < params.out->columns) return KernelStatus::kInvalidArgument;
  ForEachRow(context, params.num_rows, params.out->columns, [&](int64_t row, float* scratch) {
    const float* in = params.in + row * params.in_stride;
    FillRow(context->kernels, *params.out, row, scratch,
            [&](int64_t first, int64_t, float*) -> const float* { return in + first; });
  });
  return KernelStatus::kOk;
}

KernelStatus Activate(DeviceContext* context, const ActivateParams& params) {
  if (!Valid(params.out, params.in, params.num_rows)) return KernelStatus::kInvalidArgument;
  const int64_t columns = params.out->columns;
  const int64_t in_stride = params.gated ? 2 * columns : columns;
  ForEachRow(context, params.num_rows, columns, [&](int64_t row, float* scratch) {
    const float* in = params.in + row * in_stride;
    FillRow(context->kernels, *params.out, row, scratch,
            [&](int64_t first, int64_t count, float* buffer) -> const float* {
              const float* gated_by = params.gated ? in + columns + first : nullptr;
              context->kernels.activate(params.kind, in + first, gated_by, count, buffer);
              return buffer;
            });
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
