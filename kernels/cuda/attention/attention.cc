// SPDX-License-Identifier: Apache-2.0
// The attention entries of the CUDA device's table, on its shape and its stream.
#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/paged_attention.h"
#include "kernels/cuda/attention/rounded_outputs.h"
#include "kernels/cuda/attention/support.h"
#include "kernels/cuda/device/launchers.h"

namespace dunlin::kernels::cuda {
namespace {

bool SupportsDense(const DeviceContext* context, const DenseAttentionParams& params) {
  if (params.dtype == DType::kF8E4M3 || params.bias.dtype == DType::kF8E4M3) return false;
  return SupportsAttention(context, params.backend, TraitsOf(params), nullptr);
}

// REQUIRES: SupportsDense.
const AttentionKernel& DenseKernel(const DeviceContext* context, const DenseAttentionParams& params,
                                   const AttentionCall& call) {
  return *FindKernel(AttentionKernels(), context->shape, params.backend, AttentionPhase::kPrefill, TraitsOf(params),
                     &call);
}

// The error of a launch stays until it is read, whatever was enqueued after it.
KernelStatus AfterLaunches(DeviceContext* context, KernelStatus status) {
  const KernelStatus launched = Launched(context);
  return status == KernelStatus::kOk ? launched : status;
}

}  // namespace

cudaError_t PrepareAttention(const DeviceShape& device) {
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if (!RunsOn(kernel, device) || kernel.check_bit != 0) continue;
    if (const int error = kernel.prepare(); error != cudaSuccess) return static_cast<cudaError_t>(error);
  }
  return cudaSuccess;
}

bool SupportsAttention(const DeviceContext* context, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  return SupportsAttentionOn(context->shape, backend, traits, reasons);
}

size_t PagedAttentionWorkspace(const DeviceContext* context, AttentionBackend backend, const PagedAttentionPlan& plan) {
  if (!SupportsAttention(context, backend, plan.traits, nullptr)) return 0;
  return PagedWorkspaceBytes(context->shape, backend, plan);
}

bool AttentionFuses(DeviceContext* context, const PagedAttentionParams& params) {
  return RoundsOutputsOn(context->shape, params);
}

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  if (context->failed) return KernelStatus::kDeviceError;
  return AfterLaunches(context, RunPagedAttention(context->shape, params, context->stream));
}

size_t DenseAttentionWorkspace(const DeviceContext* context, const DenseAttentionParams& params) {
  if (!SupportsDense(context, params)) return 0;
  const AttentionCall call = CallOf(params);
  const AttentionKernel& kernel = DenseKernel(context, params, call);
  return kernel.plan.dense_workspace(kernel.geometry, call, context->shape);
}

KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params) {
  if (!SupportsDense(context, params)) return KernelStatus::kUnsupported;
  if (params.batch < 0 || params.q_len < 0 || params.kv_len < 0) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  const AttentionCall call = CallOf(params);
  return AfterLaunches(context, RunAttentionCall(context->shape, DenseKernel(context, params, call), call,
                                                 params.workspace, params.workspace_bytes, context->stream));
}

}  // namespace dunlin::kernels::cuda
