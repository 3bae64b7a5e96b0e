// SPDX-License-Identifier: Apache-2.0
// Softcap, add, row copy, rotary table, row gather, rotation and KV store: the operations that fill no GEMM input. Not
// templated over dtypes: they move little data, and a branch on the dtype is uniform within a launch.
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/gemm/coded_weight.h"
#include "kernels/cuda/ops/element_ops.h"
#include "kernels/cuda/ops/flat.cuh"
#include "kernels/cuda/ops/kv_store.h"
#include "kernels/cuda/ops/launch_after.cuh"

namespace dunlin::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) SoftcapValues(float* values, float cap, int64_t count) {
  StartEarly();
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) values[i] = Softcapped(cap, values[i]);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) AddRows(AddParams params) {
  StartEarly();
  const int64_t count = int64_t{params.num_rows} * params.columns;
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) AddAt(params, i / params.columns, i % params.columns);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) CopyPickedRows(CopyRowsParams params) {
  StartEarly();
  const int64_t count = int64_t{params.num_rows} * params.columns;
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) CopyAt(params, i / params.columns, i % params.columns);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) CopyRowBlocks(CopyColumnsParams params) {
  StartEarly();
  const int64_t per_row = int64_t{params.num_blocks} * params.columns;
  const int64_t count = params.num_rows * per_row;
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) CopyColumnAt(params, i / per_row, i % per_row);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) UpdateInputs(DelayedScalingParams params) {
  StartEarly();
  for (int64_t i = FlatIndex(); i < params.num_inputs; i += FlatStride()) {
    UpdateDelayedInput(params, static_cast<int32_t>(i));
  }
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) FillRotaryTable(RotaryTableParams params) {
  StartEarly();
  const int32_t half = params.rotary_dim / 2;
  const int64_t count = int64_t{params.num_tokens} * half;
  for (int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    RotaryAt(params, static_cast<int32_t>(i / half), static_cast<int32_t>(i % half));
  }
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) GatherPackedRows(GatherCall call) {
  StartEarly();
  GatherRow(BlockLanes(), call, blockIdx.x);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) GatherCodedRows(GatherCodedCall call) {
  StartEarly();
  GatherCodedRow(BlockLanes(), call, blockIdx.x);
}

// One block for the heads of Q (blockIdx.y 0) or K (1) of a token (blockIdx.x).
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) NormJointHeads(RotateAndStoreKvParams params) {
  StartEarly();
  NormHeadsJointly(BlockLanes(), params, static_cast<int32_t>(blockIdx.x), blockIdx.y == 1);
}

// One warp per head; blockIdx.x is the token.
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) RotateAndStoreHeads(RotateAndStoreKvParams params) {
  StartEarly();
  constexpr int kWarps = kRowThreads / kWarp;
  const int32_t head = static_cast<int32_t>(blockIdx.y) * kWarps + static_cast<int32_t>(threadIdx.x) / kWarp;
  if (head < FusedHeads(params)) RotateAndStoreHead(WarpLanes(), params, static_cast<int32_t>(blockIdx.x), head);
}

bool Valid(const RotateAndStoreKvParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.num_tokens < 0 || shape.num_kv_heads < 1 || params.num_heads % shape.num_kv_heads != 0) return false;
  if (!shape.values_in_keys && shape.v_head_dim != shape.head_dim) return false;
  if (params.layer < 0 || params.layer >= shape.num_layers) return false;
  if (params.norms_after && params.joint_norms) return false;
  if (params.query_scale.positions != nullptr && params.query_scale.period < 1) return false;
  if (params.cos_sin == nullptr) return true;
  return params.rotary_dim >= 0 && params.rotary_dim <= shape.head_dim && params.rotary_dim % 2 == 0;
}

}  // namespace

KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params) {
  if (params.values == nullptr || !(params.cap > 0.0F) || params.num_rows < 0 || params.columns < 1) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  const int64_t count = int64_t{params.num_rows} * params.columns;
  if (count == 0) return KernelStatus::kOk;
  LaunchAfter(context, SoftcapValues, BlocksFor(count), params.values, params.cap, count);
  return Launched(context);
}

KernelStatus Add(DeviceContext* context, const AddParams& params) {
  if (params.rows == nullptr || params.num_rows < 0 || params.columns <= 0) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  const int64_t count = int64_t{params.num_rows} * params.columns;
  if (count == 0) return KernelStatus::kOk;
  LaunchAfter(context, AddRows, BlocksFor(count), params);
  return Launched(context);
}

KernelStatus CopyRows(DeviceContext* context, const CopyRowsParams& params) {
  if (params.num_rows < 0 || params.columns <= 0 || params.in_stride < params.columns) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  const int64_t count = int64_t{params.num_rows} * params.columns;
  if (count == 0) return KernelStatus::kOk;
  if (params.in == nullptr || params.rows == nullptr || params.out == nullptr) return KernelStatus::kInvalidArgument;
  LaunchAfter(context, CopyPickedRows, BlocksFor(count), params);
  return Launched(context);
}

KernelStatus CopyColumns(DeviceContext* context, const CopyColumnsParams& params) {
  if (params.num_rows < 0 || params.num_blocks < 1 || params.columns < 1) return KernelStatus::kInvalidArgument;
  if (params.in_stride < 0 || params.in_block_stride < 0) return KernelStatus::kInvalidArgument;
  if (params.num_blocks > 1 && params.out_block_stride < params.columns) return KernelStatus::kInvalidArgument;
  if (params.out_stride < (params.num_blocks - 1) * params.out_block_stride + params.columns) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  if (params.in == nullptr || params.out == nullptr) return KernelStatus::kInvalidArgument;
  const int64_t count = int64_t{params.num_rows} * params.num_blocks * params.columns;
  LaunchAfter(context, CopyRowBlocks, BlocksFor(count), params);
  return Launched(context);
}

KernelStatus UpdateDelayedScaling(DeviceContext* context, const DelayedScalingParams& params) {
  if (params.num_inputs < 0 || params.history_len < 1) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_inputs == 0) return KernelStatus::kOk;
  LaunchAfter(context, UpdateInputs, BlocksFor(params.num_inputs), params);
  return Launched(context);
}

KernelStatus RotaryTable(DeviceContext* context, const RotaryTableParams& params) {
  if (params.num_tokens < 0 || params.rotary_dim < 0 || params.rotary_dim % 2 != 0) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  const int64_t count = int64_t{params.num_tokens} * (params.rotary_dim / 2);
  if (count == 0) return KernelStatus::kOk;
  LaunchAfter(context, FillRotaryTable, BlocksFor(count), params);
  return Launched(context);
}

KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params) {
  if (params.weight == nullptr || params.weight->data == nullptr || params.num_rows < 0) {
    return KernelStatus::kInvalidArgument;
  }
  if (params.weight->scale_block != 0) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  if (params.ids == nullptr || params.out == nullptr) return KernelStatus::kInvalidArgument;
  const auto rows = static_cast<unsigned>(params.num_rows);
  if (IsCoded(params.weight->format)) {
    const GatherCodedCall call{CodedViewOf(*params.weight), params.ids, params.out, params.accumulate, params.scale};
    LaunchAfter(context, GatherCodedRows, rows, call);
    return Launched(context);
  }
  const GatherCall call{.weight = ViewOf(*params.weight),
                        .ids = params.ids,
                        .out = params.out,
                        .accumulate = params.accumulate,
                        .scale = params.scale};
  LaunchAfter(context, GatherPackedRows, rows, call);
  return Launched(context);
}

KernelStatus RotateAndStoreKv(DeviceContext* context, const RotateAndStoreKvParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_tokens == 0) return KernelStatus::kOk;
  constexpr int32_t kWarps = kRowThreads / kWarp;
  const auto heads = static_cast<unsigned>((FusedHeads(params) + kWarps - 1) / kWarps);
  const dim3 grid(static_cast<unsigned>(params.num_tokens), heads);
  if (params.joint_norms) {
    const dim3 parts(static_cast<unsigned>(params.num_tokens), 2);
    LaunchAfter(context, NormJointHeads, parts, params);
  }
  LaunchAfter(context, RotateAndStoreHeads, grid, params);
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
