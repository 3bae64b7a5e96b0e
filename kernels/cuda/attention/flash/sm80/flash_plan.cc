// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/flash/sm80/flash.h"

namespace dunlin::kernels::cuda {
namespace {

// Totals live in FP32 outputs; other outputs need separate memory.
size_t TotalBytes(const BlockGeometry& geometry, const AttentionCall& call) {
  if (call.max_kv_tokens <= geometry.part_keys || call.out.dtype == DType::kF32) return 0;
  return static_cast<size_t>(int64_t{call.num_sequences} * call.num_heads * call.max_query_tokens * call.values.dim) *
         sizeof(float);
}

}  // namespace

bool HasNoSelection(const AttentionCall& call) {
  return call.selection.bits == nullptr;
}

size_t FlashDenseBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device) {
  const size_t parts = PartBytes(geometry, call, device);
  return parts != 0 ? parts : TotalBytes(geometry, call);
}

bool DivideFlash(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device, void* workspace,
                 size_t workspace_bytes, LaunchPlan* plan) {
  PlanGrid(geometry, call, plan);
  if (PlanParts(geometry, call, device, workspace, workspace_bytes, plan)) return true;
  const size_t bytes = TotalBytes(geometry, call);
  plan->SetOwn(FlashPlan{bytes == 0 ? reinterpret_cast<float*>(call.out.data) : static_cast<float*>(workspace)});
  return bytes <= workspace_bytes;
}

}  // namespace dunlin::kernels::cuda
