// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/gathered_keys.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dunlin::kernels::cuda {
namespace {

// Keys and values have rows of the same size: those of other values are in their keys.
int64_t UnitOf(const AttentionCall& call) {
  return std::gcd(call.page_bytes, call.keys.row_bytes);
}

}  // namespace

bool GathersKeys(const PagedAttentionParams& params) {
  if (params.selection.bits == nullptr || params.num_pages < 1) return false;
  const AttentionCall call = CallOf(params);
  const int64_t last_row =
      (params.num_pages - 1) * call.page_bytes + (params.layout.tokens_per_page - 1) * call.keys.row_bytes;
  return last_row / UnitOf(call) <= std::numeric_limits<int32_t>::max();
}

size_t GatheredListBytes(int32_t most) {
  const int64_t each = int64_t{sizeof(SequenceSpan)} + int64_t{most} * int64_t{sizeof(int32_t)};
  return static_cast<size_t>(RoundUpTo(kGatheredRows * each, 64));
}

KeyListCall KeyListCallOf(const AttentionCall& call, int32_t first_row, int32_t num_slots, void* lists) {
  auto* rows = static_cast<SequenceSpan*>(lists);
  return {.spans = call.spans,
          .num_sequences = call.num_sequences,
          .first_row = first_row,
          .num_slots = num_slots,
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
