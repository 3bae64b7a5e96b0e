// SPDX-License-Identifier: Apache-2.0
// Norm, quantise and activate: one block per row. Instantiations: 3 sources x (4 precisions + plain + measure) = 18.
#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/ops/launch_after.cuh"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {
namespace {

template <Precision kPrecision, typename Source>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) WriteRows(Source source, RowTarget target) {
  LaunchDependents();  // the product of these rows, which fetches weights meanwhile
  WriteRowEarly<kPrecision>(EarlyLanes(), source, target, blockIdx.x);
}

template <typename Source>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) WritePlainRows(Source source, RowTarget target) {
  LaunchDependents();
  WritePlainRowEarly(EarlyLanes(), source, target, blockIdx.x);
}

template <typename Source>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) MeasureRows(Source source, RowTarget target) {
  MeasureRow(BlockLanes(), source, target, blockIdx.x);
}

bool Aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Float4) == 0;
}

bool Valid(const Activation* out, const float* in, int32_t num_rows, const float* rows_out) {
  if (out == nullptr || out->columns <= 0 || in == nullptr || num_rows < 0) return false;
  const bool fp8 = out->precision == Precision::kFp8;
  if (out->scale_block != 0 && !(fp8 && out->scale_block == kScaleBlock)) return false;
  if (out->data == nullptr) return rows_out != nullptr;
  const bool shares = fp8 && out->scaling != InputScaling::kPerRow;
  if (shares && (out->shared_scale == nullptr || out->scale_block != 0)) return false;
  return num_rows <= out->capacity_rows;
}

template <typename Source>
void LaunchWrite(const DeviceContext* context, Precision precision, const Source& source, const RowTarget& target,
                 unsigned rows) {
  const auto launch = [&](auto* kernel) { LaunchAfter(context, kernel, rows, source, target); };
  switch (precision) {
    case Precision::kFp32:
      return launch(WriteRows<Precision::kFp32, Source>);
    case Precision::kBf16:
      return launch(WriteRows<Precision::kBf16, Source>);
    case Precision::kFp16:
      return launch(WriteRows<Precision::kFp16, Source>);
    case Precision::kFp8:
      return launch(WriteRows<Precision::kFp8, Source>);
    default:  // no product's input has another
      return;
  }
}

// Fills rows of an activation, of rows_out, or both. The source is read four columns at a time where alignment allows.
template <typename Source>
KernelStatus FillRows(DeviceContext* context, Source source, const Activation& out, float* rows_out, int32_t num_rows) {
  if (context->failed) return KernelStatus::kDeviceError;
  if (num_rows == 0) return KernelStatus::kOk;
  source.vector = source.vector && out.columns % 4 == 0 && Aligned(rows_out);
  const auto rows = static_cast<unsigned>(num_rows);
  const RowTarget target{.out = ViewOf(out),
                         .rows_out = rows_out,
                         .amax_limit = out.amax_limit,
                         .scaling = out.precision == Precision::kFp8 ? out.scaling : InputScaling::kPerRow,
                         .shared_scale = out.shared_scale,
                         .amax = out.amax,
                         .current = context->current};
  if (out.data == nullptr) {
    LaunchAfter(context, WritePlainRows<Source>, rows, source, target);
    return Launched(context);
  }
  if (target.scaling != InputScaling::kCurrent) {
    LaunchWrite(context, out.precision, source, target, rows);
    return Launched(context);
  }
  const std::lock_guard<std::mutex> lock(context->turn);
  const auto cleared =
      Checked(context, cudaMemsetAsync(context->current, 0, sizeof(*context->current), context->stream));
  if (cleared != KernelStatus::kOk) return cleared;
  MeasureRows<<<rows, kRowThreads, 0, context->stream>>>(source, target);
  LaunchWrite(context, out.precision, source, target, rows);
  return Launched(context);
}

}  // namespace

KernelStatus Norm(DeviceContext* context, const NormParams& params) {
  if (!Valid(params.out, params.in, params.num_rows, params.rows_out)) return KernelStatus::kInvalidArgument;
  if (params.weight == nullptr || (params.factor != nullptr && params.residual == nullptr)) {
    return KernelStatus::kInvalidArgument;
  }
  if (params.rows_out == params.in && params.rows != nullptr) return KernelStatus::kInvalidArgument;
  const NormSource source{
      .kind = params.kind,
      .in = params.in,
      .rows = params.rows,
      .weight = params.weight,
      .bias = params.bias,
      .residual = params.residual,
      .epsilon = params.epsilon,
      .columns = params.out->columns,
      .vector = Aligned(params.in) && Aligned(params.weight) && Aligned(params.bias) && Aligned(params.residual),
      .factor = params.factor};
  return FillRows(context, source, *params.out, params.rows_out, params.num_rows);
}

KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params) {
  if (!Valid(params.out, params.in, params.num_rows, nullptr)) return KernelStatus::kInvalidArgument;
  if (params.in_stride < params.out->columns) return KernelStatus::kInvalidArgument;
  const CopySource source{.in = params.in,
                          .in_stride = params.in_stride,
                          .columns = params.out->columns,
                          .vector = Aligned(params.in) && params.in_stride % 4 == 0,
                          .rows = params.rows};
  return FillRows(context, source, *params.out, nullptr, params.num_rows);
}

KernelStatus RoundBatches(DeviceContext* context, const BatchedGemmParams& params, int32_t first, int32_t count) {
  const Activation& out = *params.rounded;
  const float* in = params.in + first * params.in_batch_stride;
  if (!Valid(&out, in, params.num_rows * count, nullptr)) return KernelStatus::kInvalidArgument;
  const CopySource source{.in = in,
                          .in_stride = params.in_stride,
                          .columns = out.columns,
                          .vector = Aligned(in) && params.in_stride % 4 == 0 && params.in_batch_stride % 4 == 0,
                          .batch_rows = params.num_rows,
                          .batch_stride = params.in_batch_stride};
  return FillRows(context, source, out, nullptr, params.num_rows * count);
}

KernelStatus Activate(DeviceContext* context, const ActivateParams& params) {
  if (!Valid(params.out, params.in, params.num_rows, params.rows_out)) return KernelStatus::kInvalidArgument;
  if (params.rows_out == params.in && params.gated) return KernelStatus::kInvalidArgument;
  if (!ValidShape(params)) return KernelStatus::kInvalidArgument;
  if (params.cuts_before) return KernelStatus::kUnsupported;
  const ActivateSource source{.kind = params.kind,
                              .gated = params.gated,
                              .in = params.in,
                              .columns = params.out->columns,
                              .vector = Aligned(params.in),
                              .limit = params.limit,
                              .curve = params.curve};
  return FillRows(context, source, *params.out, params.rows_out, params.num_rows);
}

}  // namespace dunlin::kernels::cuda
