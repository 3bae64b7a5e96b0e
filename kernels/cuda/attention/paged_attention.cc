// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/paged_attention.h"

#include <algorithm>

#include "kernels/cuda/attention/gathered_keys.h"
#include "kernels/cuda/attention/rounded_outputs.h"
#include "kernels/cuda/attention/support.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kBlocksMax = (int64_t{1} << 31) - 1;

// One choice for all KV heads, and no pages of E4M3, whose scales lists cannot name.
bool ValidSelection(const PagedAttentionParams& params) {
  const KeySelection& selection = params.selection;
  if (selection.most < 1 || selection.head_stride != 0 || params.layout.dtype == DType::kF8E4M3) return false;
  if (selection.stride < CeilDiv(params.max_kv_tokens, 32)) return false;
  return params.causal && params.window == 0 && params.alibi_slopes == nullptr && params.bias.data == nullptr;
}

bool ValidBounds(const PagedAttentionParams& params) {
  if (params.num_sequences < 0 || params.num_rows < 0 || params.max_query_tokens < 0) return false;
  if (params.num_rows < 1 && params.num_sequences > 0 && params.max_query_tokens > 0) return false;
  if (params.num_one_token_sequences < 0 || params.num_one_token_sequences > params.num_sequences) return false;
  return params.max_kv_tokens >= params.max_query_tokens;
}

bool ValidPagedCall(const PagedAttentionParams& params) {
  const KvShape& shape = params.layout.shape;
  if (!ValidBounds(params) || params.layer < 0 || params.layer >= shape.num_layers) return false;
  if (params.num_sequences > 0 && params.num_pages < 1) return false;
  if (!shape.values_in_keys && shape.v_head_dim != shape.head_dim) return false;
  if (params.selection.bits != nullptr && !ValidSelection(params)) return false;
  return params.query_stride >= int64_t{params.num_heads} * shape.head_dim;
}

bool ValidPagedOutput(const PagedAttentionParams& params) {
  if (params.next == nullptr) return params.out != nullptr || params.num_sequences == 0;
  const int64_t columns = int64_t{params.num_heads} * params.layout.shape.v_head_dim;
  return params.out == nullptr && params.next->data != nullptr && params.next->columns == columns;
}

// Rows with a choice, some at a time: their keys are listed, then attended to. Each is a sequence of one token,
// whatever the sequence that has it.
KernelStatus RunGatheredRows(const DeviceShape& device, const PagedAttentionParams& params, Stream stream) {
  const AttentionCall call = CallOf(params);
  const size_t lists = GatheredListBytes(call.selection.most);
  if (lists > params.workspace_bytes) return KernelStatus::kOutOfMemory;
  unsigned char* workspace = static_cast<unsigned char*>(params.workspace) + lists;
  for (int32_t first = 0; first < params.num_rows; first += kGatheredRows) {
    const KeyListCall gather =
        KeyListCallOf(call, first, std::min(params.num_rows - first, kGatheredRows), params.workspace);
    LaunchListKeys(gather, stream);
    const AttentionCall gathered = GatheredCallOf(call, gather);
    const AttentionKernel* kernel =
        FindKernel(AttentionKernels(), device, params.backend, AttentionPhase::kDecode, TraitsOf(params), &gathered);
    const KernelStatus status =
        RunAttentionCall(device, *kernel, gathered, workspace, params.workspace_bytes - lists, stream);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

}  // namespace

KernelStatus RunAttentionCall(const DeviceShape& device, const AttentionKernel& kernel, const AttentionCall& call,
                              void* workspace, size_t workspace_bytes, Stream stream) {
  if (call.num_sequences == 0 || call.max_query_tokens == 0) return KernelStatus::kOk;
  LaunchPlan plan;
  if (!kernel.plan.divide(kernel.geometry, call, device, workspace, workspace_bytes, &plan)) {
    return KernelStatus::kOutOfMemory;
  }
  if (plan.blocks > kBlocksMax) return KernelStatus::kInvalidArgument;
  kernel.launch(call, plan, stream);
  if (plan.parts.data != nullptr) kernel.merge(call, plan, stream);
  return KernelStatus::kOk;
}

KernelStatus RunPagedAttention(const DeviceShape& device, const PagedAttentionParams& params, Stream stream) {
  const AttentionTraits traits = TraitsOf(params);
  if (!SupportsAttentionOn(device, params.backend, traits, nullptr)) return KernelStatus::kUnsupported;
  if (params.next != nullptr && !RoundsOutputsOn(device, params)) return KernelStatus::kUnsupported;
  if (!ValidPagedCall(params) || !ValidPagedOutput(params)) return KernelStatus::kInvalidArgument;
  if (params.num_sequences == 0 || params.max_query_tokens == 0) return KernelStatus::kOk;
  if (GathersKeys(params)) return RunGatheredRows(device, params, stream);
  const SplitCall split = SplitByRows(CallOf(params), params.num_one_token_sequences);
  for (int i = 0; i < split.count; ++i) {
    const AttentionPhase phase = split.one_token[i] ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
    const AttentionCall& call = split.calls[i];
    const AttentionKernel* kernel = FindKernel(AttentionKernels(), device, params.backend, phase, traits, &call);
    const KernelStatus status =
        RunAttentionCall(device, *kernel, call, params.workspace, params.workspace_bytes, stream);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cuda
