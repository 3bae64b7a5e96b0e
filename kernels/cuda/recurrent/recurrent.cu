// SPDX-License-Identifier: Apache-2.0
// The convolution of recurrent layers and their gates: 4 kernels. Norms of up to 1,024 columns have a warp each, wider
// ones a block.
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/ops/flat.cuh"
#include "kernels/cuda/ops/launch_after.cuh"
#include "kernels/cuda/recurrent/causal_conv.h"
#include "kernels/cuda/recurrent/checks.h"
#include "kernels/cuda/recurrent/gates.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kWarpColumns = 1024;

// blockIdx.x: a sequence and some of its channels. blockIdx.y: some of its rows.
__global__ void __launch_bounds__(kConvThreads, 8)
    ConvolveRows(const __grid_constant__ CausalConvParams params, int32_t parts) {
  StartEarly();
  const int64_t channel = int64_t{blockIdx.x % parts} * kConvThreads + threadIdx.x;
  if (channel >= params.channels) return;
  ConvolveShare(params, blockIdx.x / parts, channel, static_cast<int32_t>(blockIdx.y), static_cast<int32_t>(gridDim.y));
}

// One warp per group.
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) NormGroupsByWarps(GatedGroupNormParams params, bool vector) {
  StartEarly();
  const int64_t groups = int64_t{params.num_rows} * params.num_groups;
  const int64_t at = int64_t{blockIdx.x} * (kRowThreads / kWarp) + threadIdx.x / kWarp;
  if (at < groups) NormGroup(WarpLanes(), params, at / params.num_groups, at % params.num_groups, vector);
}

// One block per group.
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    NormGroupsByBlocks(GatedGroupNormParams params, bool vector) {
  StartEarly();
  NormGroup(BlockLanes(), params, blockIdx.x / params.num_groups, blockIdx.x % params.num_groups, vector);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) GateRows(RowGateParams params) {
  StartEarly();
  const int64_t count = int64_t{params.num_rows} * params.columns;
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) GateAt(params, i / params.columns, i % params.columns);
}

}  // namespace

KernelStatus CausalConv(DeviceContext* context, const CausalConvParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_sequences == 0) return KernelStatus::kOk;
  const ConvPlan plan = ConvPlanOf(params, context->shape.multiprocessors);
  const dim3 grid(static_cast<unsigned>(int64_t{params.num_sequences} * plan.parts),
                  static_cast<unsigned>(plan.workers));
  LaunchKernel(ConvolveRows, grid, kConvThreads, 0, LaunchesEarly(context), context->stream, params, plan.parts);
  return Launched(context);
}

KernelStatus GatedGroupNorm(DeviceContext* context, const GatedGroupNormParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  const bool vector = TakesFours(params);
  const int64_t groups = int64_t{params.num_rows} * params.num_groups;
  if (params.columns <= kWarpColumns) {
    constexpr int64_t kWarps = kRowThreads / kWarp;
    const auto blocks = static_cast<unsigned>((groups + kWarps - 1) / kWarps);
    LaunchAfter(context, NormGroupsByWarps, blocks, params, vector);
  } else {
    LaunchAfter(context, NormGroupsByBlocks, static_cast<unsigned>(groups), params, vector);
  }
  return Launched(context);
}

KernelStatus RowGate(DeviceContext* context, const RowGateParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  LaunchAfter(context, GateRows, BlocksFor(int64_t{params.num_rows} * params.columns), params);
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
