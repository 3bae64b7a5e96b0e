// SPDX-License-Identifier: Apache-2.0
// A launch of ShareColumnsParams, and how ranks on devices of their own tell each other how far they are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/rank_links.h"
#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// Of one rank, in its device memory, zeroed when ranks are linked. Meetings are counted and never reset, so that a
// recorded launch can be repeated; counts wrap, and ranks are at most one meeting apart.
struct RankCounts {
  uint32_t meetings;    // that this rank has left
  uint32_t num_stored;  // blocks of the running launch that have stored their columns
  uint32_t stopped;     // not 0: a meeting was left because the host said so
};

// Of one rank, in memory that all ranks write: its device's or the host's. Zeroed when ranks are linked.
struct RankSignals {
  uint32_t reached[kMaxLinkedRanks];  // by rank: the meeting that it has come to; each is written by that rank
};

// Columns are counted in units of one or four floats (ShareCall::vector).
struct ShareCall {
  const float* in;
  int64_t in_stride;  // floats, as in_block_stride
  int64_t in_block_stride;
  float* out[kMaxLinkedRanks];  // null: nothing to write
  int64_t out_stride;           // floats, as out_block_stride
  int64_t out_block_stride;
  const int32_t* ids;  // as ShareColumnsParams
  int32_t first_id;
  int32_t num_ids;
  uint32_t num_units;   // in all rows, < 2^31
  uint32_t columns;     // units of a block
  uint32_t num_blocks;  // of a row
  RankSignals* signals[kMaxLinkedRanks];
  RankCounts* counts;    // this rank's
  const uint32_t* stop;  // host memory, not 0: nobody waits any more
  int32_t rank;
  int32_t num_ranks;
  bool vector;
};

// 16 KB of a thread block's columns, four loads of 16 bytes a thread, and no more blocks than multiprocessors.
inline constexpr uint32_t kShareUnits = 1024;

inline uint32_t ShareBlocks(const ShareCall& call, int32_t multiprocessors) {
  const uint32_t blocks = (call.num_units + kShareUnits - 1) / kShareUnits;
  return std::clamp(blocks, 1U, static_cast<uint32_t>(std::max(multiprocessors, 1)));
}

inline bool IsValid(const ShareColumnsParams& p, int32_t num_ranks) {
  if (p.rank < 0 || p.rank >= num_ranks || p.num_rows < 0 || p.num_blocks < 1 || p.columns < 0) return false;
  if (p.in_stride < 0 || p.in_block_stride < 0 || p.num_ids < 0) return false;
  if (p.num_rows == 0 || p.columns == 0) return true;
  if (p.num_blocks > 1 && p.out_block_stride < p.columns) return false;
  if (p.out_stride < (p.num_blocks - 1) * p.out_block_stride + p.columns) return false;
  return p.in != nullptr && int64_t{p.num_rows} * p.num_blocks * p.columns <= INT32_MAX;
}

// Without signals, counts and stop. REQUIRES: IsValid.
inline ShareCall ShareCallOf(const ShareColumnsParams& p, int32_t num_ranks) {
  ShareCall call{.in = p.in,
                 .in_stride = p.in_stride,
                 .in_block_stride = p.in_block_stride,
                 .out = {},
                 .out_stride = p.out_stride,
                 .out_block_stride = p.out_block_stride,
                 .ids = p.ids,
                 .first_id = p.first_id,
                 .num_ids = p.num_ids,
                 .num_units = 0,
                 .columns = static_cast<uint32_t>(p.columns),
                 .num_blocks = static_cast<uint32_t>(p.num_blocks),
                 .signals = {},
                 .counts = nullptr,
                 .stop = nullptr,
                 .rank = p.rank,
                 .num_ranks = num_ranks,
                 .vector = false};
  if (p.num_rows == 0 || p.columns == 0) return call;
  uint64_t joint = reinterpret_cast<uintptr_t>(p.in) / sizeof(float);  // bits of all that a unit has to divide
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    if (p.out[rank] == p.in) continue;  // they are there already
    call.out[rank] = p.out[rank];
    joint |= reinterpret_cast<uintptr_t>(p.out[rank]) / sizeof(float);
  }
  joint |= static_cast<uint64_t>(p.in_stride) | static_cast<uint64_t>(p.out_stride) | call.columns;
  if (p.num_blocks > 1) joint |= static_cast<uint64_t>(p.in_block_stride) | static_cast<uint64_t>(p.out_block_stride);
  call.vector = joint % 4 == 0;
  if (call.vector) call.columns /= 4;
  call.num_units = static_cast<uint32_t>(p.num_rows) * call.num_blocks * call.columns;
  return call;
}

}  // namespace dunlin::kernels::cuda
