// SPDX-License-Identifier: Apache-2.0
// Packing weights: parts of the plain matrix are copied to the staging area, and kernels write them in the packed
// layout. The host memory may be reused when PackWeight returns.
#include <algorithm>

#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/pack_rows.h"

namespace dunlin::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kRowThreads, kRowBlocks / 2) PackRows(PackSource source, MatrixView weight) {
  PackRow(BlockLanes(), source, weight, source.first_row + blockIdx.x);
}

bool ValidScales(const PackWeightParams& p) {
  const bool from_fp8 = p.source_dtype == DType::kF8E4M3;
  const bool to_fp8 = p.weight->precision == Precision::kFp8;
  if (from_fp8 != (p.source_scales != nullptr)) return false;
  if (p.source_scale_block != 0 && !(from_fp8 && p.source_scale_block == kScaleBlock)) return false;
  return p.weight->scale_block == (to_fp8 ? p.source_scale_block : 0);
}

bool Valid(const PackWeightParams& p) {
  if (p.weight == nullptr || p.weight->data == nullptr || p.source == nullptr) return false;
  const PackedWeight& weight = *p.weight;
  return Multiplies(weight.format) && weight.out_features > 0 && weight.in_features > 0 && p.row_begin >= 0 &&
         p.num_rows >= 0 && p.row_begin <= weight.out_features - p.num_rows && ValidScales(p);
}

// Rows [first, first + count) of the source, through the staging area.
cudaError_t PackPart(DeviceContext* context, const PackWeightParams& p, const PackParts& parts, int64_t first,
                     int64_t count) {
  const PackedWeight& weight = *p.weight;
  const auto element = static_cast<int64_t>(SizeOf(p.source_dtype));
  const int64_t scales_per_row = ScalesPerRow(p.source_scale_block, weight.in_features);
  const int64_t width = parts.by_rows ? weight.in_features : count;  // elements per line
  const int64_t height = parts.by_rows ? count : weight.in_features;
  const int64_t stride = parts.by_rows ? p.row_stride : p.column_stride;
  const char* from = static_cast<const char*>(p.source) + first * p.row_stride * element;
  cudaError_t result = cudaMemcpy2DAsync(context->staging, static_cast<size_t>(width * element), from,
                                         static_cast<size_t>(stride * element), static_cast<size_t>(width * element),
                                         static_cast<size_t>(height), cudaMemcpyHostToDevice, context->stream);
  PackSource source{.source = context->staging,
                    .dtype = p.source_dtype,
                    .row_stride = parts.by_rows ? width : 1,
                    .column_stride = parts.by_rows ? 1 : width,
                    .first_row = p.row_begin + first,
                    .scales = nullptr,
                    .scale_block = p.source_scale_block,
                    .scales_per_row = scales_per_row};
  if (p.source_scales != nullptr) {
    auto* scales = static_cast<char*>(context->staging) + RoundUpTo(width * height * element, 16);
    if (result == cudaSuccess) {
      result = cudaMemcpyAsync(scales, p.source_scales + first * scales_per_row,
                               static_cast<size_t>(count * scales_per_row) * sizeof(float), cudaMemcpyHostToDevice,
                               context->stream);
    }
    source.scales = reinterpret_cast<const float*>(scales);
  }
  if (result != cudaSuccess) return result;
  PackRows<<<static_cast<unsigned>(count), kRowThreads, 0, context->stream>>>(source, ViewOf(weight));
  return cudaGetLastError();
}

}  // namespace

size_t PackedWeightBytes(WeightFormat format, int64_t out_features, int64_t in_features, int32_t scale_block) {
  if (!Multiplies(format)) return 0;
  return static_cast<size_t>(MatrixBytes(Traits(format).compute, out_features, in_features, scale_block));
}

size_t ActivationBytes(Precision precision, int32_t rows, int32_t columns) {
  return static_cast<size_t>(MatrixBytes(precision, rows, columns, kScaleBlock));
}

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const int64_t scale_bytes =
      params.source_scales == nullptr
          ? 0
          : ScalesPerRow(params.source_scale_block, params.weight->in_features) * static_cast<int64_t>(sizeof(float));
  const PackParts parts =
      PartsOf(params.row_stride, params.column_stride, params.weight->in_features,
              static_cast<int64_t>(SizeOf(params.source_dtype)), scale_bytes, static_cast<int64_t>(kStagingBytes));
  if (parts.rows_per_part < 1) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  const std::lock_guard<std::mutex> lock(context->turn);
  for (int64_t first = 0; first < params.num_rows; first += parts.rows_per_part) {
    const int64_t count = std::min(parts.rows_per_part, params.num_rows - first);
    const KernelStatus status = Checked(context, PackPart(context, params, parts, first, count));
    if (status != KernelStatus::kOk) return status;
  }
  return Checked(context, cudaStreamSynchronize(context->stream));
}

}  // namespace dunlin::kernels::cuda
