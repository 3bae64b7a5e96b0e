// SPDX-License-Identifier: Apache-2.0
// The paged entries: checks, workspace, and the translation of the API's parameters to an AttentionCall.
#include <algorithm>

#include "kernels/cpu/activation/round_columns.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/backends.h"
#include "kernels/cpu/attention/entry_pages.h"
#include "kernels/cpu/attention/gathered.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

WorkspaceNeed NeedOf(const DeviceContext* context, const AttentionBackendRow& backend, const PagedAttentionPlan& plan) {
  const AttentionTraits& traits = plan.traits;
  const int32_t group = traits.num_heads / traits.num_kv_heads;
  const int32_t v_head_dim = traits.v_head_dim == 0 ? traits.head_dim : traits.v_head_dim;
  return {.head_dim = traits.head_dim,
          .v_head_dim = v_head_dim,
          .num_kv_heads = traits.num_kv_heads,
          .rows = int64_t{plan.max_query_tokens} * group,
          .kv_len = plan.max_kv_tokens,
          .num_threads = context->pool.num_threads(),
          .ops = &SelectTileOps(*context, backend.exact_codes, traits.dtype, traits.head_dim, v_head_dim),
          .made_value_bytes = MadeValueBytes(traits.values_in_keys, traits.dtype, v_head_dim)};
}

bool ValidOutput(const PagedAttentionParams& params) {
  if (params.next == nullptr) return params.out != nullptr || params.num_sequences == 0;
  return params.out == nullptr && params.next->data != nullptr &&
         params.next->columns == params.num_heads * params.layout.shape.v_head_dim;
}

bool Valid(const PagedAttentionParams& params) {
  if (!ValidOutput(params)) return false;
  if (params.num_sequences > 0 && params.num_pages < 1) return false;
  if (params.num_sequences < 0 || params.layer < 0 || params.layer >= params.layout.shape.num_layers) return false;
  const KvShape& shape = params.layout.shape;
  if (params.selection.bits != nullptr && params.selection.most < 1) return false;
  if (!shape.values_in_keys && shape.v_head_dim != shape.head_dim) return false;
  if (params.query_stride < int64_t{params.num_heads} * params.layout.shape.head_dim) return false;
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = params.sequences[i];
    if (span.query_start < 0 || span.query_len < 0 || span.first_position < 0 || span.page_table_row < 0) return false;
    if (span.query_len > params.max_query_tokens || span.query_start + span.query_len > params.num_rows) return false;
    if (span.first_position + span.query_len > params.max_kv_tokens) return false;
    if (params.next != nullptr && span.query_start + span.query_len > params.next->capacity_rows) return false;
  }
  return true;
}

// Pages of no layer in particular.
KvLayout LayoutOf(const AttentionTraits& traits) {
  return MakeKvLayout(traits.dtype, {.num_layers = 1,
                                     .num_kv_heads = traits.num_kv_heads,
                                     .head_dim = traits.head_dim,
                                     .v_head_dim = traits.v_head_dim,
                                     .values_in_keys = traits.values_in_keys});
}

size_t WorkspaceOf(const AttentionBackendRow& backend, const WorkspaceNeed& need, const PagedAttentionPlan& plan) {
  if (plan.selected_keys == 0) return backend.paged.workspace(need);
  const int32_t group = plan.traits.num_heads / plan.traits.num_kv_heads;
  const WorkspaceNeed gathered = GatheredNeed(need, group, plan.selected_keys);
  return std::max(backend.paged.workspace(need), GatheredWorkspace(backend.paged, LayoutOf(plan.traits), gathered));
}

// [num_tokens, num_heads, v_head_dim], of `out` or as rows of `next`.
RowTensor<std::byte> OutputOf(const KernelTable& kernels, const PagedAttentionParams& params) {
  const int32_t v_head_dim = params.layout.shape.v_head_dim;
  if (params.next == nullptr) {
    return {.data = reinterpret_cast<std::byte*>(params.out),
            .dtype = DType::kF32,
            .token_stride = int64_t{params.num_heads} * v_head_dim,
            .head_stride = v_head_dim};
  }
  const Activation& next = *params.next;
  const size_t element = ActivationElement(kernels, next.precision);
  return {.data = ActivationRow(next, 0),
          .dtype = element == sizeof(float) ? DType::kF32 : DType::kBF16,
          .token_stride = static_cast<int64_t>(ActivationStride(next.columns) / element),
          .head_stride = v_head_dim};
}

void PadRows(const KernelTable& kernels, const PagedAttentionParams& params) {
  if (params.next == nullptr || params.next->columns % kActivationPad == 0) return;
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = params.sequences[i];
    for (int32_t row = 0; row < span.query_len; ++row) PadRow(kernels, *params.next, span.query_start + row);
  }
}

}  // namespace

bool AttentionFuses(DeviceContext* context, const PagedAttentionParams& params) {
  const Activation* next = params.next;
  if (next == nullptr || next->precision == Precision::kFp8 || next->amax != nullptr) return false;
  return next->precision != Precision::kBf16 || context->kernels.bf16_row_bytes == sizeof(uint16_t);
}

size_t PagedAttentionWorkspace(const DeviceContext* context, AttentionBackend backend, const PagedAttentionPlan& plan) {
  if (!SupportsAttention(context, backend, plan.traits, nullptr)) return 0;
  const AttentionBackendRow& row = *FindBackend(backend);
  return WorkspaceOf(row, NeedOf(context, row, plan), plan);
}

namespace {

// entries: of CompressedAttention, or null.
KernelStatus Attend(DeviceContext* context, const PagedAttentionParams& params, const EntryPlace* entries) {
  const KvShape& shape = params.layout.shape;
  const bool selects = params.selection.bits != nullptr || entries != nullptr;
  const PagedAttentionPlan plan{.traits = TraitsOf(params),
                                .max_query_tokens = params.max_query_tokens,
                                .max_kv_tokens = entries == nullptr
                                                     ? params.max_kv_tokens
                                                     : std::max(params.max_kv_tokens, params.selection.most),
                                .selected_keys = selects ? params.selection.most : 0};
  if (!SupportsAttention(context, params.backend, plan.traits, nullptr)) return KernelStatus::kUnsupported;
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.next != nullptr && !AttentionFuses(context, params)) return KernelStatus::kUnsupported;
  if (params.num_sequences == 0 || params.max_query_tokens == 0) return KernelStatus::kOk;
  const AttentionBackendRow& backend = *FindBackend(params.backend);
  const WorkspaceNeed need = NeedOf(context, backend, plan);
  if (params.workspace_bytes < WorkspaceOf(backend, need, plan)) return KernelStatus::kOutOfMemory;

  AttentionCall call{};
  call.ops = need.ops;
  call.layout = params.layout;
  call.kv_pool = static_cast<const std::byte*>(params.kv_pool);
  call.layer = params.layer;
  call.num_heads = params.num_heads;
  call.group = params.num_heads / shape.num_kv_heads;
  call.SetScale(params.scale);
  if (params.softcap > 0.0F || params.alibi_slopes != nullptr || params.bias.data != nullptr) {
    call.SetRule(params.scale, {.softcap = params.softcap, .alibi_slopes = params.alibi_slopes, .bias = params.bias});
  }
  call.window = params.window;
  call.sinks = params.sinks;
  call.selection = params.selection;
  call.causal = params.causal;
  call.query = {.data = reinterpret_cast<const std::byte*>(params.query),
                .dtype = DType::kF32,
                .token_stride = params.query_stride,
                .head_stride = shape.head_dim};
  call.out = OutputOf(context->kernels, params);
  call.num_sequences = params.num_sequences;
  call.spans = params.sequences;
  call.page_table = params.page_table;
  call.page_table_stride = params.page_table_stride;
  if (selects) {
    const bool whole = entries != nullptr || params.selection.stride >= (int64_t{params.max_kv_tokens} + 31) / 32;
    if (!whole || !Gathers(call, entries)) return KernelStatus::kInvalidArgument;
    RunGathered(context, backend.paged, call, GatheredNeed(need, call.group, plan.selected_keys), params.workspace,
                entries);
  } else {
    backend.paged.run(context, call, need, params.workspace);
  }
  PadRows(context->kernels, params);
  return KernelStatus::kOk;
}

}  // namespace

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  return Attend(context, params, nullptr);
}

KernelStatus CompressedAttention(DeviceContext* context, const CompressedAttentionParams& params) {
  const EntryPlace& entries = params.entries;
  const KvLayout& layout = params.window.layout;
  const bool valid = params.window.window > 0 && params.window.selection.most > 0 &&
                     ValidEntries(entries, layout.shape.head_dim) && entries.place.layout.dtype == layout.dtype;
  return valid ? Attend(context, params.window, &entries) : KernelStatus::kInvalidArgument;
}

}  // namespace dunlin::kernels::cpu
