// SPDX-License-Identifier: Apache-2.0
// The work of a call in pieces: blocks of query rows, longest first, because a causal prefill's last block costs many
// times its first. The list lives in the workspace and has a fixed capacity; longer calls run in several rounds.
// Thread rule: filled by the caller's thread, then read by the pool's workers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention/call.h"

namespace dunlin::kernels::cpu {

inline constexpr int kMaxScheduleItems = 1024;

struct ScheduleItem {
  int32_t sequence;
  int32_t num_rows;   // of the block
  int64_t first_row;  // packed
  int32_t first_key;  // that its first row sees
  int32_t end_key;    // one past the last that its last row sees
};

// A block of rows and the KV head that it is computed for.
struct Task {
  ScheduleItem item;
  int32_t kv_head;
};

// Task `index` of a list, KV heads inside.
inline Task TaskAt(const AttentionCall& call, const ScheduleItem* items, int64_t index) {
  return {items[index / call.num_kv_heads()], static_cast<int32_t>(index % call.num_kv_heads())};
}

// The first key of the task's first tile at or after the tile of key `from`; past item.end_key where there is none.
inline int32_t FirstTileFrom(const Task& task, int32_t from) {
  return std::max(task.item.first_key, from) / kTileKeys * kTileKeys;
}

// Lists blocks in the order in which few rows read them: keys of the task's tiles from key `first` on, a multiple of
// kTileKeys, then their values. Returns how many tiles those are, at most `most`; 0 where it has none there.
inline int ListTiles(const AttentionCall& call, const Task& task, int32_t first, int most, const std::byte** blocks) {
  if (first >= task.item.end_key) return 0;
  const int tiles = std::min(most, static_cast<int>(CeilDiv(task.item.end_key - first, kTileKeys)));
  const int num_blocks = TileBlocks(call.layout);
  const SequenceView sequence = call.Sequence(task.item.sequence);
  for (int i = 0; i < tiles; ++i, blocks += num_blocks) {
    ListTile(call, sequence, task.kv_head, first + i * kTileKeys, blocks, blocks + tiles * num_blocks);
  }
  return tiles;
}

// Where the walk over sequences and blocks stands.
struct ScheduleCursor {
  int32_t sequence = 0;
  int64_t row = 0;
};

// Packed rows of a sequence, per KV head.
inline int64_t PackedRows(const AttentionCall& call, const SequenceView& sequence) {
  return int64_t{sequence.query_len} * call.group;
}

// Appends the next blocks of at most block_rows rows, at most max_items (<= kMaxScheduleItems), and sorts them by cost,
// most expensive first. Returns how many; 0 at the end. items: [kMaxScheduleItems].
int FillSchedule(const AttentionCall& call, int block_rows, int max_items, ScheduleCursor* cursor, ScheduleItem* items);

// Blocks, of sequences with more packed rows than more_than, times KV heads, counted up to `enough`.
int64_t CountTasks(const AttentionCall& call, int block_rows, int64_t more_than, int64_t enough);

// Blocks per thread that keep the threads balanced: with fewer, most threads wait for the last block.
inline constexpr int64_t kBlocksPerThread = 8;

// FLASH takes larger blocks than kBlockRows where a call has so many of them. One thread takes them always.
constexpr int64_t LargeBlocksWanted(int num_threads) {
  return num_threads == 1 ? 0 : kBlocksPerThread * num_threads;
}

}  // namespace dunlin::kernels::cpu
