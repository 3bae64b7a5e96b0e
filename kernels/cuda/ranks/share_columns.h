// SPDX-License-Identifier: Apache-2.0
// ShareColumnsParams on a device: every block stores its part of the rank's columns into the ranks' memory; the last
// one to have done so tells the other ranks, and waits until they have told this one. So the launch ends when all
// ranks' columns are here, whatever the numbers of blocks, and at most one block waits.
//
// System: stores to memory of other devices, and the order in which they become visible. Publish makes visible to
// whoever acquires its value what the block, and the blocks whose values it has acquired, have stored.
// Source: PTX ISA, "Memory Consistency Model": release patterns are cumulative over barriers and atomics.
#pragma once

#include <cstdint>

#include "kernels/cuda/ranks/share_call.h"

namespace dunlin::kernels::cuda {

// Looks at other ranks' signals between two at the host's word, which crosses PCIe.
inline constexpr uint32_t kLooksPerStop = 256;

DUNLIN_DEVICE bool SharesRow(const ShareCall& call, uint32_t row) {
  if (call.ids == nullptr) return true;
  const int64_t id = int64_t{call.ids[row]} - call.first_id;
  return id >= 0 && id < call.num_ids;
}

// T: float or Float4, a unit.
template <typename T, typename System>
DUNLIN_DEVICE void StoreColumns(const System& system, const ShareCall& call, uint32_t first, uint32_t stride) {
  constexpr int64_t kFloats = sizeof(T) / sizeof(float);
  for (uint32_t i = first; i < call.num_units; i += stride) {
    const uint32_t run = i / call.columns;
    const uint32_t row = run / call.num_blocks;
    if (!SharesRow(call, row)) continue;
    const int64_t block = run % call.num_blocks;
    const int64_t column = i % call.columns * kFloats;
    const T value = *reinterpret_cast<const T*>(call.in + row * call.in_stride + block * call.in_block_stride + column);
    const int64_t at = row * call.out_stride + block * call.out_block_stride + column;
    DUNLIN_UNROLL for (int32_t rank = 0; rank < kMaxLinkedRanks; ++rank) {
      if (call.out[rank] != nullptr) system.Store(reinterpret_cast<T*>(call.out[rank] + at), value);
    }
  }
}

// Waits until the rank has come to the meeting. False where the host has stopped all of them.
template <typename System>
DUNLIN_DEVICE bool WaitFor(const System& system, const uint32_t* reached, uint32_t meeting, const uint32_t* stop) {
  for (uint32_t looks = 1; static_cast<int32_t>(system.Acquire(reached) - meeting) < 0; ++looks) {
    if (looks % kLooksPerStop == 0 && system.Look(stop) != 0) return false;
  }
  return true;
}

// All lanes of a block call, `num_blocks` blocks of the rank. True in the one that has waited, with the meeting.
template <typename Lanes, typename System>
DUNLIN_DEVICE bool MeetRanks(const Lanes& lanes, const System& system, const ShareCall& call, uint32_t num_blocks,
                             uint32_t* meeting) {
  lanes.Sync();  // the block has stored
  uint32_t is_last = 0;
  if (lanes.index() == 0) is_last = system.CountBlock(&call.counts->num_stored) + 1 == num_blocks ? 1 : 0;
  if (lanes.Max(is_last) == 0) return false;
  *meeting = call.counts->meetings + 1;
  for (int32_t rank = lanes.index(); rank < call.num_ranks; rank += lanes.count()) {
    if (rank != call.rank) system.Publish(&call.signals[rank]->reached[call.rank], *meeting);
  }
  const uint32_t* const reached = call.signals[call.rank]->reached;
  for (int32_t rank = lanes.index(); rank < call.num_ranks; rank += lanes.count()) {
    if (rank != call.rank && !WaitFor(system, reached + rank, *meeting, call.stop)) call.counts->stopped = 1;
  }
  lanes.Sync();
  if (lanes.index() != 0) return true;
  call.counts->meetings = *meeting;
  call.counts->num_stored = 0;
  return true;
}

// Block `block` of num_blocks.
template <typename Lanes, typename System>
DUNLIN_DEVICE void ShareBlock(const Lanes& lanes, const System& system, const ShareCall& call, uint32_t block,
                              uint32_t num_blocks) {
  const auto count = static_cast<uint32_t>(lanes.count());
  const uint32_t first = block * count + static_cast<uint32_t>(lanes.index());
  if (call.vector) {
    StoreColumns<Float4>(system, call, first, num_blocks * count);
  } else {
    StoreColumns<float>(system, call, first, num_blocks * count);
  }
  uint32_t meeting = 0;
  (void)MeetRanks(lanes, system, call, num_blocks, &meeting);
}

}  // namespace dunlin::kernels::cuda
