// SPDX-License-Identifier: Apache-2.0
// How a call's work is divided among blocks, and the memory this takes. Host code over the call's bounds: it reads no
// device memory. Results do not depend on it, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/partial.h"

namespace dunlin::kernels::cuda {

// Blocks that fill a device: two for each of an H200's 132 SMs. With fewer, a task's keys are divided.
inline constexpr int64_t kBlocksToFill = 264;
inline constexpr int64_t kPartialBytesMax = int64_t{64} << 20;  // of parts
inline constexpr int64_t kPagedScoreBytesMax = int64_t{64}
                                               << 20;  // of paged MATH's scores, unless one block needs more

struct LaunchPlan {
  int32_t row_blocks;    // of 64 packed rows, per (sequence, KV head)
  int32_t column_tiles;  // of 64 value columns, divided among blocks; 1: a block has all columns
  PartialStore parts;    // data null: a block walks through all keys of its rows
  int32_t part_keys;
  float* totals;  // FLASH: FP32 rows laid out as the outputs, or null when no row has several splits
  float* scores;  // MATH: [workers][score_floats]
  int64_t score_floats;
  int64_t workers;  // MATH: blocks that take tasks in turn
  int64_t blocks;   // grid size
};

// Position of block `index` in the grid. Blocks of one (sequence, KV head) are adjacent, those with the most keys
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

// Bytes for the largest call of a plan, for any number of sequences.
size_t PagedWorkspaceBytes(AttentionBackend backend, const PagedAttentionPlan& plan);
// Bytes for this call.
size_t DenseWorkspaceBytes(AttentionBackend backend, const AttentionCall& call);

// False when the workspace is too small.
bool PlanLaunch(AttentionBackend backend, const AttentionCall& call, void* workspace, size_t workspace_bytes,
                LaunchPlan* plan);

}  // namespace dunlin::kernels::cuda
