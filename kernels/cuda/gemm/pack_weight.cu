// SPDX-License-Identifier: Apache-2.0
// Packing weights: parts of the plain matrix, or of a checkpoint's codes, are copied to the staging area, and kernels
// write them in the packed layout. The host memory may be reused when PackWeight returns.
#include <algorithm>

#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/gemm/pack_kernels.h"
#include "kernels/cuda/gemm/pack_rows.h"

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

// Whether the format can be made of the source.
bool ValidSource(const PackWeightParams& p) {
  const WeightFormat format = p.weight->format;
  if (p.codes != nullptr) {
    return Holds(format, p.codes->traits) && ArraysOf(*p.codes, p.weight->in_features).complete();
  }
  return p.source != nullptr && !Traits(Traits(format).scales).keeps_codes && ValidScales(p);
}

bool Valid(const PackWeightParams& p) {
  if (p.weight == nullptr || p.weight->data == nullptr) return false;
  const PackedWeight& weight = *p.weight;
  return Multiplies(weight.format) && weight.out_features > 0 && weight.in_features > 0 && p.row_begin >= 0 &&
         p.num_rows >= 0 && p.row_begin <= weight.out_features - p.num_rows && ValidSource(p);
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
  if (IsCoded(weight.format)) {
    LaunchRoundCodes(source, CodedViewOf(weight), count, context->stream);
  } else {
    PackRows<<<static_cast<unsigned>(count), kRowThreads, 0, context->stream>>>(source, ViewOf(weight));
  }
  return cudaGetLastError();
}

// Rows [first, first + count) of a checkpoint's codes.
cudaError_t PackCodedPart(DeviceContext* context, const PackWeightParams& p, const CodeArrays& arrays, int64_t first,
                          int64_t count) {
  void* at[CodeArrays::kCount] = {};
  auto* to = static_cast<char*>(context->staging);
  for (int i = 0; i < CodeArrays::kCount; ++i) {
    const CodeArrays::Array& array = arrays.arrays[i];
    if (array.bytes_per_row == 0) continue;
    const int64_t bytes = count * array.bytes_per_row;
    const cudaError_t result = cudaMemcpyAsync(to, static_cast<const char*>(array.from) + first * array.bytes_per_row,
                                               static_cast<size_t>(bytes), cudaMemcpyHostToDevice, context->stream);
    if (result != cudaSuccess) return result;
    at[i] = to;
    to += RoundUpTo(bytes, 16);
  }
  const CodedSource source{CodesAt(p.codes->traits, at), p.row_begin + first};
  LaunchCopyCodes(source, CodedViewOf(*p.weight), count, context->stream);
  return cudaGetLastError();
}

// Calls pack(first, count) for parts of the rows, then waits: the host memory is the caller's again.
template <typename Pack>
KernelStatus PackInParts(DeviceContext* context, int64_t num_rows, int64_t rows_per_part, const Pack& pack) {
  if (rows_per_part < 1) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  const std::lock_guard<std::mutex> lock(context->turn);
  for (int64_t first = 0; first < num_rows; first += rows_per_part) {
    const KernelStatus status = Checked(context, pack(first, std::min(rows_per_part, num_rows - first)));
    if (status != KernelStatus::kOk) return status;
  }
  return Checked(context, cudaStreamSynchronize(context->stream));
}

}  // namespace

size_t PackedWeightBytes(WeightFormat format, int64_t out_features, int64_t in_features, int32_t scale_block) {
  if (!Multiplies(format)) return 0;
  if (IsCoded(format)) {
    return static_cast<size_t>(CodedView{nullptr, CodedFormatOf(format), out_features, in_features}.bytes());
  }
  return static_cast<size_t>(MatrixBytes(Traits(format).compute, out_features, in_features, scale_block));
}

size_t ActivationBytes(Precision precision, int32_t rows, int32_t columns) {
  return static_cast<size_t>(MatrixBytes(precision, rows, columns, kScaleBlock));
}

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const auto staging_bytes = static_cast<int64_t>(kStagingBytes);
  if (params.codes != nullptr) {
    const CodeArrays arrays = ArraysOf(*params.codes, params.weight->in_features);
    return PackInParts(context, params.num_rows, arrays.RowsIn(staging_bytes), [&](int64_t first, int64_t count) {
      return PackCodedPart(context, params, arrays, first, count);
    });
  }
  const int64_t scale_bytes =
      params.source_scales == nullptr
          ? 0
          : ScalesPerRow(params.source_scale_block, params.weight->in_features) * static_cast<int64_t>(sizeof(float));
  const PackParts parts = PartsOf(params.row_stride, params.column_stride, params.weight->in_features,
                                  static_cast<int64_t>(SizeOf(params.source_dtype)), scale_bytes, staging_bytes);
  return PackInParts(context, params.num_rows, parts.rows_per_part,
                     [&](int64_t first, int64_t count) { return PackPart(context, params, parts, first, count); });
}

}  // namespace dunlin::kernels::cuda
