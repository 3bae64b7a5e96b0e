// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: routing, a warp per row and a block per expert, and the weighted sum of what experts give.
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/ops/experts.h"
#include "kernels/cuda/ops/flat.cuh"
#include "kernels/cuda/ops/launch_after.cuh"

namespace dunlin::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kWarp) ChooseExperts(RouteExpertsParams params) {
  StartEarly();
  __shared__ RouteMemory memory;
  RouteRow(WarpLanes(), params, blockIdx.x, &memory);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) PlaceExpertRows(RouteExpertsParams params) {
  StartEarly();
  __shared__ PlaceMemory<kRowThreads> memory;
  PlaceRows(BlockLanes(), params, static_cast<int32_t>(blockIdx.x), &memory);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) AddWeighted(AddWeightedRowsParams params) {
  StartEarly();
  const int64_t count = int64_t{params.num_rows} * params.columns;
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    AddWeightedAt(params, i / params.columns, i % params.columns);
  }
}

bool Valid(const RouteExpertsParams& p) {
  if (!IsRule(p.rule) || p.num_rows < 0 || p.logits_stride < p.rule.num_experts) return false;
  if (p.decode_rows < 0 || p.decode_rows > p.num_rows || p.experts == nullptr) return false;
  return p.num_rows == 0 || (p.logits != nullptr && p.chosen != nullptr && p.chosen_weights != nullptr &&
                             p.rows != nullptr && p.weights != nullptr && p.places != nullptr);
}

}  // namespace

KernelStatus RouteExperts(DeviceContext* context, const RouteExpertsParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const bool known = params.token_experts == nullptr && params.rule.scoring != ExpertScoring::kRootSoftplus;
  if (!known) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows > 0) {
    LaunchKernel(ChooseExperts, static_cast<unsigned>(params.num_rows), kWarp, 0, LaunchesEarly(context),
                 context->stream, params);
  }
  LaunchAfter(context, PlaceExpertRows, static_cast<unsigned>(params.rule.num_experts), params);
  return Launched(context);
}

KernelStatus AddWeightedRows(DeviceContext* context, const AddWeightedRowsParams& params) {
  if (params.num_rows < 0 || params.columns <= 0 || params.weight_stride < 1) return KernelStatus::kInvalidArgument;
  if (params.num_places < 1 || (params.places == nullptr && params.num_places != 1)) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  const int64_t count = int64_t{params.num_rows} * params.columns;
  if (count == 0) return KernelStatus::kOk;
  if (params.in == nullptr || params.out == nullptr) return KernelStatus::kInvalidArgument;
  if (params.weights == nullptr && params.sigmoid) return KernelStatus::kInvalidArgument;
  LaunchAfter(context, AddWeighted, BlocksFor(count), params);
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
