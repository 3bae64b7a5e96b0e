// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/gathered_keys.h"

#include <algorithm>
#include <numeric>

namespace dunlin::kernels::cuda {
namespace {

// Keys and values have rows of the same size: those of other values are in their keys.
int64_t UnitOf(const AttentionCall& call) {
  return std::gcd(call.page_bytes, call.keys.row_bytes);
}

}  // namespace

bool GathersKeys(const AttentionCall& call) {
  return call.selection.bits != nullptr && UnitOf(call) >= kGatheredUnitMin;
}

size_t GatheredListBytes(int32_t most) {
  const int64_t each = int64_t{sizeof(SequenceSpan)} + int64_t{most} * int64_t{sizeof(int32_t)};
  return static_cast<size_t>(RoundUpTo(kGatheredRows * each, 64));
}

int64_t SlotsOf(const AttentionCall& call) {
  return int64_t{call.num_sequences} * call.max_query_tokens;
}

KeyListCall KeyListCallOf(const AttentionCall& call, int64_t first, void* lists) {
  auto* rows = static_cast<SequenceSpan*>(lists);
  return {.spans = call.spans,
          .query_tokens = call.max_query_tokens,
          .first_slot = static_cast<int32_t>(first),
          .num_slots = static_cast<int32_t>(std::min<int64_t>(SlotsOf(call) - first, kGatheredRows)),
          .page_table = call.page_table,
          .page_table_stride = call.page_table_stride,
          .page_shift = call.page_shift,
          .page_units = static_cast<int32_t>(call.page_bytes / UnitOf(call)),
          .row_units = static_cast<int32_t>(call.keys.row_bytes / UnitOf(call)),
          .selection = call.selection,
          .rows = rows,
          .keys = reinterpret_cast<int32_t*>(rows + kGatheredRows)};
}

AttentionCall GatheredCallOf(const AttentionCall& call, const KeyListCall& gather) {
  AttentionCall gathered = call;
  gathered.selection = {};
  gathered.spans = gather.rows;
  gathered.num_sequences = gather.num_slots;
  gathered.page_table = gather.keys;
  gathered.page_table_stride = gather.selection.most;
  gathered.page_bytes = UnitOf(call);
  gathered.page_shift = 0;
  gathered.max_query_tokens = 1;
  gathered.max_kv_tokens = std::min(gather.selection.most, call.max_kv_tokens);
  return gathered;
}

PagedAttentionPlan GatheredPlanOf(const PagedAttentionPlan& plan) {
  PagedAttentionPlan gathered = plan;
  gathered.max_query_tokens = 1;
  gathered.max_kv_tokens = plan.selected_keys;
  gathered.selected_keys = 0;
  return gathered;
}

}  // namespace dunlin::kernels::cuda
