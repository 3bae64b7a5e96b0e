// SPDX-License-Identifier: Apache-2.0
// The attention entries of the CUDA device's table: validation, workspace, and the choice of kernels.
#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/attention/support.h"
#include "kernels/cuda/device/launchers.h"
#include "kernels/shared/attention_rules.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kBlocksMax = (int64_t{1} << 31) - 1;

bool Valid(const PagedAttentionParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.num_one_token_sequences < 0 || params.num_one_token_sequences > params.num_sequences) return false;
  if (params.num_sequences < 0 || params.layer < 0 || params.layer >= shape.num_layers) return false;
  if (!shape.values_in_keys && shape.v_head_dim != shape.head_dim) return false;
  if (params.max_query_tokens < 0 || params.max_kv_tokens < params.max_query_tokens) return false;
  return params.query_stride >= int64_t{params.num_heads} * shape.head_dim;
}

bool SupportsDense(const DeviceContext* context, const DenseAttentionParams& params) {
  if (params.dtype == DType::kF8E4M3 || params.bias.dtype == DType::kF8E4M3) return false;
  return SupportsAttention(context, params.backend, TraitsOf(params), nullptr);
}

void LaunchBackend(AttentionBackend backend, const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  switch (backend) {
    case AttentionBackend::kMath:
      return LaunchMath(call, plan, stream);
    case AttentionBackend::kEfficient:
      return LaunchEfficient(call, plan, stream);
    case AttentionBackend::kFlash:
      if (call.keys.dtype == DType::kF16) return LaunchFlashFp16(call, plan, stream);
      return LaunchFlashBf16(call, plan, stream);
  }
}

KernelStatus Run(DeviceContext* context, AttentionBackend backend, const AttentionCall& call, void* workspace,
                 size_t workspace_bytes) {
  if (context->failed) return KernelStatus::kDeviceError;
  if (call.num_sequences == 0 || call.max_query_tokens == 0) return KernelStatus::kOk;
  LaunchPlan plan;
  if (!PlanLaunch(backend, call, context->shape, workspace, workspace_bytes, &plan)) return KernelStatus::kOutOfMemory;
  if (plan.blocks > kBlocksMax) return KernelStatus::kInvalidArgument;
  LaunchBackend(backend, call, plan, context->stream);
  if (plan.parts.data != nullptr) LaunchMerge(call, plan, context->stream);
  return Launched(context);
}

}  // namespace

cudaError_t PrepareAttention(int32_t shared_bytes) {
  for (const auto prepare : {PrepareFlashBf16, PrepareFlashFp16}) {
    if (const cudaError_t error = prepare(shared_bytes); error != cudaSuccess) return error;
  }
  const cudaError_t error = PrepareEfficient();
  return error == cudaSuccess ? PrepareMath() : error;
}

bool SupportsAttention(const DeviceContext* context, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  return SupportsAttention(context->sm_version, backend, traits, reasons);
}

size_t PagedAttentionWorkspace(const DeviceContext* context, AttentionBackend backend, const PagedAttentionPlan& plan) {
  if (!SupportsAttention(context, backend, plan.traits, nullptr)) return 0;
  return PagedWorkspaceBytes(backend, plan, context->shape);
}

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  if (!SupportsAttention(context, params.backend, TraitsOf(params), nullptr)) return KernelStatus::kUnsupported;
  if (params.next != nullptr) return KernelStatus::kUnsupported;  // attention_fuses is false
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const SplitCall split = SplitByRows(CallOf(params), params.num_one_token_sequences);
  for (int i = 0; i < split.count; ++i) {
    const KernelStatus status = Run(context, params.backend, split.calls[i], params.workspace, params.workspace_bytes);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

size_t DenseAttentionWorkspace(const DeviceContext* context, const DenseAttentionParams& params) {
  return SupportsDense(context, params) ? DenseWorkspaceBytes(params.backend, CallOf(params), context->shape) : 0;
}

KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params) {
  if (!SupportsDense(context, params)) return KernelStatus::kUnsupported;
  if (params.batch < 0 || params.q_len < 0 || params.kv_len < 0) return KernelStatus::kInvalidArgument;
  return Run(context, params.backend, CallOf(params), params.workspace, params.workspace_bytes);
}

}  // namespace dunlin::kernels::cuda
