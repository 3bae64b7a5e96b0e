// How a call's work is divided among blocks, and the memory that takes. Host code over the call's bounds alone: it
// never reads what lies on the device. No bit of a result depends on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/partial.h"

namespace dunlin::kernels::cuda {

// Blocks that fill a device: two an SM of an H200's 132. With fewer, a task's keys are divided.
inline constexpr int64_t kBlocksToFill = 264;
inline constexpr int64_t kPartialBytesMax = int64_t{64} << 20;     // of parts
inline constexpr int64_t kPagedScoreBytesMax = int64_t{64} << 20;  // of paged MATH's scores, if one block needs less

struct LaunchPlan {
  int32_t row_blocks;    // of 64 packed rows, of one (sequence, KV head)
  int32_t column_tiles;  // of 64 columns of the values that blocks share out; 1 where a block has all
  PartialStore parts;    // data null: a block walks through all keys of its rows
  int32_t part_keys;
  float* totals;  // FLASH: FP32 rows as the outputs', or null where no row has several splits
  float* scores;  // MATH: [workers][score_floats]
  int64_t score_floats;
  int64_t workers;  // MATH: blocks, that take tasks in turn
  int64_t blocks;   // of the grid
};

// Where block `index` of the grid stands. Blocks of one (sequence, KV head) follow each other, those with the most keys
// first.
struct BlockPlace {
  int32_t sequence;
  int32_t kv_head;
  int32_t row_block;
  int32_t column_tile;
  int32_t part;
};
DUNLIN_HD inline BlockPlace PlaceOf(const LaunchPlan& plan, int32_t num_kv_heads, int64_t index) {
  BlockPlace place{};
  const int32_t parts = plan.parts.data == nullptr ? 1 : plan.parts.num_parts;
  place.part = static_cast<int32_t>(index % parts);
  index /= parts;
  place.column_tile = static_cast<int32_t>(index % plan.column_tiles);
  index /= plan.column_tiles;
  place.row_block = plan.row_blocks - 1 - static_cast<int32_t>(index % plan.row_blocks);
  index /= plan.row_blocks;
  place.kv_head = static_cast<int32_t>(index % num_kv_heads);
  place.sequence = static_cast<int32_t>(index / num_kv_heads);
  return place;
}

// Bytes that the largest call of a plan needs, or uses: any number of sequences fits.
size_t PagedWorkspaceBytes(AttentionBackend backend, const PagedAttentionPlan& plan);
// Bytes of this very call.
size_t DenseWorkspaceBytes(AttentionBackend backend, const AttentionCall& call);

// False when the workspace is too small.
bool PlanLaunch(AttentionBackend backend, const AttentionCall& call, void* workspace, size_t workspace_bytes,
                LaunchPlan* plan);

}  // namespace dunlin::kernels::cuda
