// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/launch_plan.h"

#include <algorithm>

namespace dunlin::kernels::cuda {
namespace {

int64_t PackedRows(int32_t max_query_tokens, int32_t group) {
  return int64_t{max_query_tokens} * group;
}

PartialStore StoreOf(const BlockGeometry& geometry, int64_t rows, int32_t max_kv_tokens, int32_t v_head_dim) {
  return {.data = nullptr,
          .num_parts = static_cast<int32_t>(CeilDiv(max_kv_tokens, geometry.part_keys)),
          .rows = static_cast<int32_t>(std::min<int64_t>(rows, geometry.rows)),
          .v_head_dim = v_head_dim,
          .row_blocks = static_cast<int32_t>(CeilDiv(rows, geometry.rows))};
}
PartialStore StoreOf(const BlockGeometry& geometry, const AttentionCall& call) {
  return StoreOf(geometry, PackedRows(call.max_query_tokens, call.group), call.max_kv_tokens, call.values.dim);
}

int64_t StoreBytes(const PartialStore& store, int64_t tasks) {
  return tasks * store.num_parts * store.floats_per_part() * static_cast<int64_t>(sizeof(float));
}

}  // namespace

int64_t TasksOf(const BlockGeometry& geometry, const AttentionCall& call) {
  return int64_t{call.num_sequences} * call.num_kv_heads *
         CeilDiv(PackedRows(call.max_query_tokens, call.group), geometry.rows);
}

void PlanGrid(const BlockGeometry& geometry, const AttentionCall& call, LaunchPlan* plan) {
  *plan = {};
  plan->row_blocks = static_cast<int32_t>(CeilDiv(PackedRows(call.max_query_tokens, call.group), geometry.rows));
  plan->column_tiles = geometry.columns == 0 ? 1 : static_cast<int32_t>(CeilDiv(call.values.dim, geometry.columns));
  plan->part_keys = geometry.part_keys;
  plan->blocks = TasksOf(geometry, call) * plan->column_tiles;
}

// Parts pay off when a block covers all rows of a KV head, or the call has one token of each sequence, and there are
// too few tasks to fill the device.
size_t PartBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device) {
  const PartialStore store = StoreOf(geometry, call);
  if (store.num_parts < 2 || (store.row_blocks > 1 && call.max_query_tokens > 1)) return 0;
  const int64_t tasks = TasksOf(geometry, call);
  return tasks < device.blocks_to_fill() ? static_cast<size_t>(StoreBytes(store, tasks)) : 0;
}

bool PlanParts(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device, void* memory,
               size_t bytes, LaunchPlan* plan) {
  const size_t needed = PartBytes(geometry, call, device);
  if (needed == 0 || needed > bytes) return false;
  plan->parts = StoreOf(geometry, call);
  plan->parts.data = static_cast<float*>(memory);
  plan->blocks *= plan->parts.num_parts;
  return true;
}

size_t PagedPartBytes(const BlockGeometry& geometry, const PagedAttentionPlan& plan, const DeviceShape& device) {
  const int32_t group = plan.traits.num_heads / plan.traits.num_kv_heads;
  const PartialStore store =
      StoreOf(geometry, PackedRows(plan.max_query_tokens, group), plan.max_kv_tokens, plan.traits.head_dim);
  return static_cast<size_t>(std::min(StoreBytes(store, device.blocks_to_fill()), geometry.part_bytes_max));
}

SplitCall SplitByRows(const AttentionCall& call, int32_t num_one_token) {
  if (num_one_token == 0 || num_one_token == call.num_sequences) {
    return {{call, call}, {num_one_token != 0, num_one_token != 0}, 1};
  }
  AttentionCall few = call;
  few.num_sequences = num_one_token;
  few.max_query_tokens = 1;
  AttentionCall many = call;
  many.spans = call.spans + num_one_token;
  many.num_sequences = call.num_sequences - num_one_token;
  return {{few, many}, {true, false}, 2};
}

}  // namespace dunlin::kernels::cuda
