// The paged entries: checks, workspace, and the step from the API's parameters to an AttentionCall.
#include "kernels/api/attention_rules.h"
#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/context.h"

namespace dunlin::kernels::cpu {
namespace {

size_t Workspace(AttentionBackend backend, const WorkspaceNeed& need) {
  switch (backend) {
    case AttentionBackend::kMath:
      return MathWorkspace(need);
    case AttentionBackend::kFlash:
      return FlashWorkspace(need);
    case AttentionBackend::kEfficient:
      return EfficientWorkspace(need);
  }
  return 0;
}

WorkspaceNeed NeedOf(const DeviceContext* context, const PagedAttentionPlan& plan) {
  const int32_t group = plan.traits.num_heads / plan.traits.num_kv_heads;
  return {.head_dim = plan.traits.head_dim,
          .v_head_dim = plan.traits.head_dim,
          .num_kv_heads = plan.traits.num_kv_heads,
          .rows = int64_t{plan.max_query_tokens} * group,
          .kv_len = plan.max_kv_tokens,
          .num_threads = context->pool.num_threads()};
}

bool Valid(const PagedAttentionParams& params) {
  if (params.num_sequences < 0 || params.layer < 0 || params.layer >= params.layout.shape.num_layers) return false;
  if (params.layout.shape.v_head_dim != params.layout.shape.head_dim) return false;
  if (params.query_stride < int64_t{params.num_heads} * params.layout.shape.head_dim) return false;
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = params.sequences[i];
    if (span.query_start < 0 || span.query_len < 0 || span.first_position < 0 || span.page_table_row < 0) return false;
    if (span.query_len > params.max_query_tokens) return false;
    if (span.first_position + span.query_len > params.max_kv_tokens) return false;
  }
  return true;
}

}  // namespace

size_t PagedAttentionWorkspace(const DeviceContext* context, AttentionBackend backend, const PagedAttentionPlan& plan) {
  if (!SupportsAttention(context, backend, plan.traits, nullptr)) return 0;
  return Workspace(backend, NeedOf(context, plan));
}

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  const KvShape& shape = params.layout.shape;
  const PagedAttentionPlan plan{
      .traits = TraitsOf(params), .max_query_tokens = params.max_query_tokens, .max_kv_tokens = params.max_kv_tokens};
  if (!SupportsAttention(context, params.backend, plan.traits, nullptr)) return KernelStatus::kUnsupported;
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.num_sequences == 0 || params.max_query_tokens == 0) return KernelStatus::kOk;
  const WorkspaceNeed need = NeedOf(context, plan);
  if (params.workspace_bytes < Workspace(params.backend, need)) return KernelStatus::kOutOfMemory;

  AttentionCall call{};
  call.ops = &SelectTileOps(*context, params.layout);
  call.layout = params.layout;
  call.kv_pool = static_cast<const std::byte*>(params.kv_pool);
  call.layer = params.layer;
  call.num_heads = params.num_heads;
  call.group = params.num_heads / shape.num_kv_heads;
  call.SetScale(params.scale);
  if (params.softcap > 0.0F) call.SetRule(params.scale, {.softcap = params.softcap});
  call.window = params.window;
  call.causal = params.causal;
  call.query = {.data = reinterpret_cast<const std::byte*>(params.query),
                .dtype = DType::kF32,
                .token_stride = params.query_stride,
                .head_stride = shape.head_dim};
  call.out = {.data = reinterpret_cast<std::byte*>(params.out),
              .dtype = DType::kF32,
              .token_stride = int64_t{params.num_heads} * shape.head_dim,
              .head_stride = shape.head_dim};
  call.num_sequences = params.num_sequences;
  call.spans = params.sequences;
  call.page_table = params.page_table;
  call.page_table_stride = params.page_table_stride;
  switch (params.backend) {
    case AttentionBackend::kMath:
      RunMath(context, call, need, params.workspace);
      break;
    case AttentionBackend::kFlash:
      RunFlash(context, call, params.workspace);
      break;
    case AttentionBackend::kEfficient:
      RunEfficient(context, call, need, params.workspace);
      break;
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
