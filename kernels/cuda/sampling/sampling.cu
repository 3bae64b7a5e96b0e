// SPDX-License-Identifier: Apache-2.0
// The operation `sample`: one block per row, and `take_drawn`. A step's rows are few and long, so a block has the most
// threads possible: 1,024 with 64 registers each read 4 KiB at once.
#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/ops/flat.cuh"
#include "kernels/cuda/ops/launch_after.cuh"
#include "kernels/cuda/sampling/sample_row.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kSampleThreads = 1024;

__global__ void __launch_bounds__(kSampleThreads, 1) SampleRows(SampleParams params, int64_t row_bytes) {
  __shared__ SampleShared shared;
  StartEarly();
  SampleOneRow(LanesOfBlock<kSampleThreads>(), params, row_bytes, blockIdx.x, &shared);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) TakeDrawnTokens(TakeDrawnParams params) {
  StartEarly();
  for (int64_t i = FlatIndex(); i < params.num_tokens; i += FlatStride()) TakeDrawnAt(params, static_cast<int32_t>(i));
}

bool Valid(const SampleParams& params) {
  if (params.logits == nullptr || params.rows == nullptr || params.out == nullptr || params.workspace == nullptr) {
    return false;
  }
  return params.vocab_size > 0 && params.num_rows >= 0;
}

}  // namespace

size_t SampleWorkspace(const DeviceContext* /*context*/, int32_t num_rows, int32_t vocab_size) {
  return static_cast<size_t>(num_rows) * static_cast<size_t>(SampleScratchBytes(vocab_size));
}

KernelStatus Sample(DeviceContext* context, const SampleParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.workspace_bytes < SampleWorkspace(context, params.num_rows, params.vocab_size)) {
    return KernelStatus::kOutOfMemory;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  LaunchKernel(SampleRows, static_cast<unsigned>(params.num_rows), kSampleThreads, 0, LaunchesEarly(context),
               context->stream, params, SampleScratchBytes(params.vocab_size));
  return Launched(context);
}

KernelStatus TakeDrawn(DeviceContext* context, const TakeDrawnParams& params) {
  if (params.drawn == nullptr || params.rows == nullptr || params.token_ids == nullptr || params.num_tokens < 0) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_tokens == 0) return KernelStatus::kOk;
  LaunchAfter(context, TakeDrawnTokens, BlocksFor(params.num_tokens), params);
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
