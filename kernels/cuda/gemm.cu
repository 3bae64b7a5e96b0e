// GEMM: cuBLASLt by the plans of gemm_plan.h. What a form leaves out is added by a kernel afterwards: FP8's bias, and
// all that follows a product that went through the staging area.
#include <algorithm>

#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/layout.h"

namespace dunlin::kernels::cuda {
namespace {

// out[m, n] = product[m, n] + bias[n] + residual[m, n]; product may be out itself.
struct Finish {
  const float* product;
  int64_t product_stride;
  const float* bias;      // or null
  const float* residual;  // or null; rows out_stride apart
  float* out;
  int64_t out_stride;
  int64_t columns;
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) FinishRows(Finish finish) {
  const int64_t row = blockIdx.x;
  const float* product = finish.product + row * finish.product_stride;
  for (int64_t n = threadIdx.x; n < finish.columns; n += kRowThreads) {
    float value = product[n];
    if (finish.bias != nullptr) value += finish.bias[n];
    if (finish.residual != nullptr) value += finish.residual[row * finish.out_stride + n];
    finish.out[row * finish.out_stride + n] = value;
  }
}

bool Valid(const GemmParams& p) {
  if (p.in == nullptr || p.weight == nullptr || p.out == nullptr || p.num_rows < 0) return false;
  const PackedWeight& weight = *p.weight;
  return weight.data != nullptr && weight.out_features > 0 && weight.in_features > 0 && p.in->data != nullptr &&
         p.in->precision == weight.precision && p.in->columns == weight.in_features &&
         p.in->scale_block == weight.scale_block && p.num_rows <= p.in->capacity_rows &&
         p.out_stride >= weight.out_features;
}

// Rows [first, first + count) of the product into `out`, then what its form left out.
KernelStatus RunRows(DeviceContext* context, const GemmParams& params, const GemmForm& form, bool staged, int64_t first,
                     int64_t count) {
  const MatrixView weight = ViewOf(*params.weight);
  const MatrixView in = ViewOf(*params.in);
  const bool fp8 = weight.precision == Precision::kFp8;
  float* out = params.out + first * params.out_stride;
  const float* residual = params.residual == nullptr ? nullptr : params.residual + first * params.out_stride;
  const GemmOperands operands{.weight = weight.data,
                              .in = in.row(first),
                              .weight_scales = fp8 ? weight.scales() : nullptr,
                              .in_scales = fp8 ? in.scales() + first : nullptr,
                              .bias = params.bias,
                              .residual = residual,
                              .out = staged ? static_cast<float*>(context->staging) : out,
                              .num_rows = static_cast<int32_t>(count)};
  const KernelStatus status = context->plans->Run(form, operands, context->stream);
  if (status == KernelStatus::kDeviceError) context->failed = true;
  if (status != KernelStatus::kOk) return status;
  const Finish finish{.product = operands.out,
                      .product_stride = form.out_stride,
                      .bias = form.bias ? nullptr : params.bias,
                      .residual = form.residual ? nullptr : residual,
                      .out = out,
                      .out_stride = params.out_stride,
                      .columns = weight.rows};
  if (staged || finish.bias != nullptr || finish.residual != nullptr) {
    FinishRows<<<static_cast<unsigned>(count), kRowThreads, 0, context->stream>>>(finish);
  }
  return Launched(context);
}

}  // namespace

KernelStatus Gemm(DeviceContext* context, const GemmParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const bool fp8 = params.weight->precision == Precision::kFp8;
  if (params.weight->scale_block != 0 || (fp8 && context->sm_version < 90)) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  const GemmForm form = FormOf(params);
  if (!NeedsStaging(params)) return RunRows(context, params, form, false, 0, params.num_rows);

  const int64_t rows_at_once = static_cast<int64_t>(kStagingBytes / sizeof(float)) / form.out_stride;
  if (rows_at_once < 1) return KernelStatus::kUnsupported;
  const std::lock_guard<std::mutex> lock(context->turn);
  for (int64_t first = 0; first < params.num_rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, params.num_rows - first);
    const KernelStatus status = RunRows(context, params, form, true, first, count);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cuda
