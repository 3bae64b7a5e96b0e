// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/launch_plan.h"

#include <algorithm>

#include "kernels/cuda/attention/efficient/efficient_block.h"
#include "kernels/cuda/attention/flash/sm80/flash_block.h"
#include "kernels/cuda/attention/math/math_block.h"

namespace dunlin::kernels::cuda {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int32_t PartKeys(AttentionBackend backend) {
  return backend == AttentionBackend::kFlash ? kSplitKeys : kChunkKeys;
}

int64_t RowsOf(int32_t max_query_tokens, int32_t group) {
  return int64_t{max_query_tokens} * group;
}

PartialStore StoreOf(AttentionBackend backend, int64_t rows, int32_t max_kv_tokens, int32_t v_head_dim) {
  return {.data = nullptr,
          .num_parts = static_cast<int32_t>(CeilDiv(max_kv_tokens, PartKeys(backend))),
          .rows = static_cast<int32_t>(std::min<int64_t>(rows, kTileRows)),
          .v_head_dim = v_head_dim};
}

int64_t StoreBytes(const PartialStore& store, int64_t tasks) {
  return tasks * store.num_parts * store.floats_per_part() * static_cast<int64_t>(sizeof(float));
}

int64_t ScoreBytes(int32_t max_kv_tokens) {
  return MathScoreFloats(max_kv_tokens) * static_cast<int64_t>(sizeof(float));
}

bool IsDense(const AttentionCall& call) {
  return call.spans == nullptr;
}

int64_t TasksOf(const AttentionCall& call) {
  return int64_t{call.num_sequences} * call.num_kv_heads *
         CeilDiv(RowsOf(call.max_query_tokens, call.group), kTileRows);
}

// Parts pay off when one block covers all rows of a task and there are too few tasks to fill the device.
bool WantsParts(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device,
                const PartialStore& store) {
  if (backend == AttentionBackend::kMath || store.num_parts < 2) return false;
  return RowsOf(call.max_query_tokens, call.group) <= kTileRows && TasksOf(call) < device.blocks_to_fill();
}

// Totals live in FP32 outputs; other outputs need separate memory.
bool WantsTotals(AttentionBackend backend, const AttentionCall& call) {
  return backend == AttentionBackend::kFlash && call.max_kv_tokens > kSplitKeys && call.out.dtype != DType::kF32;
}
int64_t TotalBytes(const AttentionCall& call) {
  return int64_t{call.num_sequences} * call.num_heads * call.max_query_tokens * call.values.dim *
         static_cast<int64_t>(sizeof(float));
}

PartialStore StoreOf(AttentionBackend backend, const AttentionCall& call) {
  return StoreOf(backend, RowsOf(call.max_query_tokens, call.group), call.max_kv_tokens, call.values.dim);
}

}  // namespace

FlashTiles FlashTilesOf(int32_t dim, const DeviceShape& device) {
  const int32_t slices = dim <= 64 ? 1 : dim <= 128 ? 2 : 4;
  return {slices, slices == 4 && FlashMemory<4, 2>::kBytes > device.block_shared_bytes ? 1 : 2};
}

SplitCall SplitByRows(const AttentionCall& call, int32_t num_one_token) {
  if (num_one_token == 0 || num_one_token == call.num_sequences) return {{call, call}, 1};
  AttentionCall few = call;
  few.num_sequences = num_one_token;
  few.max_query_tokens = 1;
  AttentionCall many = call;
  many.spans = call.spans + num_one_token;
  many.num_sequences = call.num_sequences - num_one_token;
  return {{few, many}, 2};
}

size_t PagedWorkspaceBytes(AttentionBackend backend, const PagedAttentionPlan& plan, const DeviceShape& device) {
  if (backend == AttentionBackend::kMath) {
    const int64_t each = ScoreBytes(std::max(plan.max_kv_tokens, 1));
    return static_cast<size_t>(each * std::clamp<int64_t>(kPagedScoreBytesMax / each, 1, device.blocks_to_fill()));
  }
  const int32_t group = plan.traits.num_heads / plan.traits.num_kv_heads;
  const PartialStore store =
      StoreOf(backend, RowsOf(plan.max_query_tokens, group), plan.max_kv_tokens, plan.traits.head_dim);
  return static_cast<size_t>(std::min(StoreBytes(store, device.blocks_to_fill()), kPartialBytesMax));
}

size_t DenseWorkspaceBytes(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device) {
  if (backend == AttentionBackend::kMath) return static_cast<size_t>(TasksOf(call) * ScoreBytes(call.max_kv_tokens));
  const PartialStore store = StoreOf(backend, call);
  if (WantsParts(backend, call, device, store)) return static_cast<size_t>(StoreBytes(store, TasksOf(call)));
  return WantsTotals(backend, call) ? static_cast<size_t>(TotalBytes(call)) : 0;
}

bool PlanLaunch(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device, void* workspace,
                size_t workspace_bytes, LaunchPlan* plan) {
  const auto bytes = static_cast<int64_t>(workspace_bytes);
  *plan = {};
  plan->row_blocks = static_cast<int32_t>(CeilDiv(RowsOf(call.max_query_tokens, call.group), kTileRows));
  plan->column_tiles = 1;
  plan->part_keys = PartKeys(backend);
  auto* memory = static_cast<float*>(workspace);
  if (backend == AttentionBackend::kMath) {
    plan->scores = memory;
    plan->score_floats = MathScoreFloats(call.max_kv_tokens);
    const int64_t each = ScoreBytes(call.max_kv_tokens);
    const int64_t wanted = IsDense(call) ? TasksOf(call) : std::min(TasksOf(call), device.blocks_to_fill());
    plan->workers = each == 0 ? wanted : std::min(wanted, bytes / each);
    plan->blocks = plan->workers;
    return plan->workers >= (IsDense(call) ? wanted : std::min<int64_t>(wanted, 1));
  }
  if (backend == AttentionBackend::kFlash) plan->flash = FlashTilesOf(std::max(call.keys.dim, call.values.dim), device);
  if (backend == AttentionBackend::kEfficient) {
    plan->column_tiles = static_cast<int32_t>(CeilDiv(call.values.dim, kTileDims));
  }
  PartialStore store = StoreOf(backend, call);
  plan->blocks = TasksOf(call) * plan->column_tiles;
  if (WantsParts(backend, call, device, store) && StoreBytes(store, TasksOf(call)) <= bytes) {
    store.data = memory;
    plan->parts = store;
    plan->blocks *= store.num_parts;
    return true;
  }
  if (!WantsTotals(backend, call)) {
    plan->totals = reinterpret_cast<float*>(call.out.data);
    return true;
  }
  plan->totals = memory;
  return TotalBytes(call) <= bytes;
}

}  // namespace dunlin::kernels::cuda
