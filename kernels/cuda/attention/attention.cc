// SPDX-License-Identifier: Apache-2.0
// The attention entries of the CUDA device's table: validation, workspace, and the launch of the kernel whose row takes
// the call.
#include "kernels/cuda/attention/gathered_keys.h"
#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/rounded_outputs.h"
#include "kernels/cuda/attention/support.h"
#include "kernels/cuda/device/launchers.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kBlocksMax = (int64_t{1} << 31) - 1;

// One choice for all KV heads, and no pages of E4M3, whose scales lists cannot name.
bool ValidSelection(const PagedAttentionParams& params) {
  return params.selection.most > 0 && params.selection.head_stride == 0 && params.layout.dtype != DType::kF8E4M3;
}

bool Valid(const PagedAttentionParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.num_one_token_sequences < 0 || params.num_one_token_sequences > params.num_sequences) return false;
  if (params.num_sequences < 0 || params.layer < 0 || params.layer >= shape.num_layers) return false;
  if (!shape.values_in_keys && shape.v_head_dim != shape.head_dim) return false;
  if (params.max_query_tokens < 0 || params.max_kv_tokens < params.max_query_tokens) return false;
  if (params.selection.bits != nullptr && !ValidSelection(params)) return false;
  return params.query_stride >= int64_t{params.num_heads} * shape.head_dim;
}

bool ValidOutput(const PagedAttentionParams& params) {
  if (params.next == nullptr) return params.out != nullptr || params.num_sequences == 0;
  const int64_t columns = int64_t{params.num_heads} * params.layout.shape.v_head_dim;
  return params.out == nullptr && params.next->data != nullptr && params.next->columns == columns;
}

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

KernelStatus Run(DeviceContext* context, const AttentionKernel& kernel, const AttentionCall& call, void* workspace,
                 size_t workspace_bytes) {
  if (context->failed) return KernelStatus::kDeviceError;
  if (call.num_sequences == 0 || call.max_query_tokens == 0) return KernelStatus::kOk;
  LaunchPlan plan;
  if (!kernel.plan.divide(kernel.geometry, call, context->shape, workspace, workspace_bytes, &plan)) {
    return KernelStatus::kOutOfMemory;
  }
  if (plan.blocks > kBlocksMax) return KernelStatus::kInvalidArgument;
  kernel.launch(call, plan, context->stream);
  if (plan.parts.data != nullptr) kernel.merge(call, plan, context->stream);
  return Launched(context);
}

// Rows with a choice, some at a time: their keys are listed, then attended to.
KernelStatus RunGathered(DeviceContext* context, const PagedAttentionParams& params, const AttentionCall& call) {
  if (context->failed) return KernelStatus::kDeviceError;
  const size_t lists = GatheredListBytes(call.selection.most);
  if (lists > params.workspace_bytes) return KernelStatus::kOutOfMemory;
  unsigned char* workspace = static_cast<unsigned char*>(params.workspace) + lists;
  for (int64_t first = 0; first < SlotsOf(call); first += kGatheredRows) {
    const KeyListCall gather = KeyListCallOf(call, first, params.workspace);
    LaunchListKeys(gather, context->stream);
    const AttentionCall gathered = GatheredCallOf(call, gather);
    const AttentionKernel* kernel = FindKernel(AttentionKernels(), context->shape, params.backend,
                                               AttentionPhase::kDecode, TraitsOf(params), &gathered);
    const KernelStatus status = Run(context, *kernel, gathered, workspace, params.workspace_bytes - lists);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

KernelStatus RunPhase(DeviceContext* context, const PagedAttentionParams& params, const AttentionCall& call,
                      AttentionPhase phase) {
  if (GathersKeys(call)) return RunGathered(context, params, call);
  const AttentionKernel* kernel =
      FindKernel(AttentionKernels(), context->shape, params.backend, phase, TraitsOf(params), &call);
  return Run(context, *kernel, call, params.workspace, params.workspace_bytes);
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
  const AttentionTraits traits = TraitsOf(params);
  if (!SupportsAttention(context, params.backend, traits, nullptr)) return KernelStatus::kUnsupported;
  if (params.next != nullptr && !AttentionFuses(context, params)) return KernelStatus::kUnsupported;
  if (!Valid(params) || !ValidOutput(params)) return KernelStatus::kInvalidArgument;
  const SplitCall split = SplitByRows(CallOf(params), params.num_one_token_sequences);
  for (int i = 0; i < split.count; ++i) {
    const AttentionPhase phase = split.one_token[i] ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
    const KernelStatus status = RunPhase(context, params, split.calls[i], phase);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
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
  const AttentionCall call = CallOf(params);
  return Run(context, DenseKernel(context, params, call), call, params.workspace, params.workspace_bytes);
}

}  // namespace dunlin::kernels::cuda
