// SPDX-License-Identifier: Apache-2.0
// Tiles of the wgmma GEMM whose weights of integer codes are expanded to BF16 in shared memory, by warps of their own,
// while other warps multiply the stages before: for rows in a prompt, and for narrow weights, where a tile of few
// outputs would wait for its own expansion.
#pragma once

#include "kernels/cuda/gemm/sm90/wgmma_call.h"

namespace dunlin::kernels::cuda {

// Threads: kWarpgroups that multiply, kExpanders warps that expand 16 outputs of 64 of K at a time, a warp that loads.
// A stage has 64 of K, a tile of CodedView: the inputs, the codes of kColumns rows and the numbers of their groups, in
// the space that the largest need. kSlots stages have a place for their expanded weights. With one warpgroup the
// weights are the M side, of 64 outputs: those past kColumns are no one's, and their sums are not stored.
// kReserved: bytes of shared memory that are left for something else.
template <int kRowCount, int kColumnCount, int kWarpgroupCount, int kExpanderCount, int kSlotCount, int kBlockCount,
          uint32_t kReserved = 0>
struct ExpandedTile : WgmmaOperands<Bf16Format, kRowCount, kColumnCount> {
  using Operands = WgmmaOperands<Bf16Format, kRowCount, kColumnCount>;
  static constexpr bool kCoded = true;
  static constexpr int kWarpgroups = kWarpgroupCount;
  static constexpr int kExpanders = kExpanderCount;
  static constexpr int kSlots = kSlotCount;
  static constexpr int kBlocks = kBlockCount;  // per multiprocessor
  static constexpr int kThreads = 128 * kWarpgroups + 32 * kExpanders + 32;
  static constexpr bool kSwapped = kWarpgroups == 1;
  static constexpr int kProductColumns = kSwapped ? kRowCount : kColumnCount;
  static constexpr int kSums = kProductColumns / 2;
  // The groups of 16 outputs of all stages go around among the expanding warps.
  static constexpr int kGroups = kColumnCount / 16;

  static constexpr uint32_t kCodeBytes = kColumnCount * kCodeTileBytesMax;
  static constexpr uint32_t kStageBytes =
      RoundUpTo(int64_t{Operands::kInBytes} + kCodeBytes + kColumnCount * kNumberBytesMax, 1024);
  static constexpr uint32_t kSlotBytes = (kSwapped ? 64 : kColumnCount) * kTileBytes;
  // A multiprocessor has 228 KB, of which 1 KB of each block is the system's.
  static constexpr uint32_t kBytes = 228 * 1024 / kBlocks - 1024 - kReserved;
  static constexpr int kFitting = (kBytes - 1024 - kSlots * kSlotBytes) / (kStageBytes + 24);
  static constexpr int kStages = kFitting / kSlots * kSlots;  // stage s has the slot s % kSlots
  static constexpr uint32_t kSlotsAt = kStages * kStageBytes;
  static constexpr uint32_t kCodedBarriers = kSlotsAt + kSlots * kSlotBytes;
  static constexpr uint32_t kBarriers = kCodedBarriers + 8 * kStages;  // full and empty
  static constexpr uint32_t kSharedBytes = kBarriers + 2 * 8 * kStages + 1024;
  static_assert(kSwapped ? kColumnCount <= 64 : kRowCount == 64 * kWarpgroups);
  // A warp that leaves out stages comes back to the same ones, so that it waits for every phase of their barriers.
  static_assert(kExpanders < kGroups || (kExpanders % kGroups == 0 && kSlots * kGroups % kExpanders == 0));
  static_assert(kStages >= 2 * kSlots && kSharedBytes <= kBytes);
};

// 12 stages of 64 of K in 3 blocks of a multiprocessor, 8 in 3, 12, and 6.
using Expanded8x16 = ExpandedTile<8, 16, 1, 4, 4, 3>;
using Expanded16x16 = ExpandedTile<16, 16, 1, 4, 4, 3>;
using Expanded64x64 = ExpandedTile<64, 64, 1, 8, 4, 1>;
using Expanded128x128 = ExpandedTile<128, 128, 2, 7, 3, 1>;  // 16 warps have 128 registers a thread

// Of rows in groups with a weight each.
using GroupedExpanded16x16 = GroupedTile<ExpandedTile<16, 16, 1, 4, 4, 3, kGroupBytes>>;
using GroupedExpanded64x64 = GroupedTile<ExpandedTile<64, 64, 1, 8, 4, 1, kGroupBytes>>;
using GroupedExpanded128x128 = GroupedTile<ExpandedTile<128, 128, 2, 7, 3, 1, kGroupBytes>>;

}  // namespace dunlin::kernels::cuda
