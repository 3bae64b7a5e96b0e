// SPDX-License-Identifier: Apache-2.0
// How a call's work is divided among blocks, and the memory this takes. Host code over the call's bounds: it reads no
// device memory. Results do not depend on it, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/partial.h"

namespace dunlin::kernels::cuda {

// What a launch depends on of the device; results do not depend on it.
struct DeviceShape {
  int32_t multiprocessors;
  int32_t block_shared_bytes;  // of shared memory, at most

  // Blocks that fill the device: two for each SM. With fewer, a task's keys are divided.
  int64_t blocks_to_fill() const { return int64_t{2} * multiprocessors; }
};

// FLASH's instantiation: 64-dim slices of a row, and stages of keys and values in shared memory.
struct FlashTiles {
  int32_t slices;  // 1, 2 or 4
  int32_t stages;  // 2; 1 where a block has no room for two
};
FlashTiles FlashTilesOf(int32_t dim, const DeviceShape& device);  // dim <= kFlashDimMax

inline constexpr int64_t kPartialBytesMax = int64_t{64} << 20;  // of parts
inline constexpr int64_t kPagedScoreBytesMax = int64_t{64}
                                               << 20;  // of paged MATH's scores, unless one block needs more

struct LaunchPlan {
  FlashTiles flash;      // FLASH only
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
size_t PagedWorkspaceBytes(AttentionBackend backend, const PagedAttentionPlan& plan, const DeviceShape& device);
// Bytes for this call.
size_t DenseWorkspaceBytes(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device);

// False when the workspace is too small.
bool PlanLaunch(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device, void* workspace,
                size_t workspace_bytes, LaunchPlan* plan);

// A paged call as one or two launches: the first num_one_token sequences, which have one query token each, apart from
// the others, because keys are divided only where no sequence of a launch has many rows. A prefill chunk would
// otherwise leave each decoding sequence beside it to one block per KV head.
struct SplitCall {
  AttentionCall calls[2];
  int count;
};
SplitCall SplitByRows(const AttentionCall& call, int32_t num_one_token);

}  // namespace dunlin::kernels::cuda
