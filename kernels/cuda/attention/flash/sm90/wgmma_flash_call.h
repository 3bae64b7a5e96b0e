// SPDX-License-Identifier: Apache-2.0
// One launch of FLASH by wgmma, and what its blocks keep in shared memory. A block has 64 packed rows of one
// (sequence, KV head) for each warpgroup that multiplies, and walks through tiles of 128 keys in ascending order. Keys
// are split at absolute multiples of 1,024, merged in ascending order: in shared memory where a block walks through all
// of them, else by the merge kernel, with the same bits. A row's result depends on neither the number of warpgroups nor
// the rows beside it: wgmma adds in the order of k, whatever else it multiplies. E4M3 codes are widened to BF16 on the
// way: where every scale is 1 the bits are those of BF16 pages with the same values.
#pragma once

#include "kernels/cuda/attention/launch_plan.h"
#include "kernels/cuda/sm90/descriptor.h"
#include "kernels/cuda/sm90/tensor_map.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kWgmmaKeys = 128;          // of a tile
inline constexpr int32_t kWgmmaSplitKeys = 1024;    // of a split
inline constexpr int32_t kWgmmaMinPageTokens = 8;   // a box starts at a multiple of the swizzle's eight rows
inline constexpr int32_t kWgmmaPagesEnd = 1 << 30;  // the index of no page: its boxes are zeros
inline constexpr int kWgmmaStages = 2;              // of keys, and of values

// kDims: of heads, at most; 64 or 128. kOfCodes: pages hold E4M3 codes, which become operands of the format. Byte
// offsets in shared memory, from a multiple of kSwizzleAlignment on.
template <typename OperandFormat, int kDims, int kWarpgroupCount, bool kOfCodes = false>
struct WgmmaFlashShape {
  using Format = OperandFormat;
  static constexpr bool kCodes = kOfCodes;
  static constexpr DType kDType = kCodes ? DType::kF8E4M3 : Format::kDType;  // of keys and values
  static constexpr int kDim = kDims;
  static constexpr int kSlices = kDim / 64;  // of 128 bytes of a row
  static constexpr int kWarpgroups = kWarpgroupCount;
  static constexpr int kRows = 64 * kWarpgroups;
  // The last warpgroup loads; of codes the last two, whose first warp loads while the others widen.
  static constexpr int kLoadWarpgroups = kCodes ? 2 : 1;
  static constexpr int kWideners = kCodes ? 4 * kLoadWarpgroups - 1 : 0;  // warps
  static constexpr int kThreads = 128 * (kWarpgroups + kLoadWarpgroups);
  static constexpr uint32_t kQuerySliceBytes = 64 * kSwizzleRowBytes;
  static constexpr uint32_t kQueryBytes = kSlices * kQuerySliceBytes;  // of a warpgroup
  static constexpr uint32_t kSliceBytes = kWgmmaKeys * kSwizzleRowBytes;
  static constexpr uint32_t kTileBytes = kSlices * kSliceBytes;
  static constexpr uint32_t kKeys = kWarpgroups * kQueryBytes;
  static constexpr uint32_t kValues = kKeys + kWgmmaStages * kTileBytes;
  static constexpr uint32_t kTotals = kValues + kWgmmaStages * kTileBytes;  // FP32 rows of the splits so far
  static constexpr uint32_t kFlags = kTotals + kRows * kDim * 4;            // a piece per stage of values
  static constexpr uint32_t kFlagBytes = kCodes ? 32 : 16;  // of a stage: a word per warp that looks through it
  static constexpr uint32_t kScales = kFlags + kFlagBytes * kWgmmaStages;
  static constexpr uint32_t kScaleBytes = kWgmmaKeys * 4;  // of a tile's keys, in each stage, and of its values, in one
  static constexpr uint32_t kBarriers = kScales + (kCodes ? (kWgmmaStages + 1) * kScaleBytes : 0);
  static constexpr uint32_t kNumBarriers = kCodes ? 6 * kWgmmaStages + 2 : 4 * kWgmmaStages + 1;
  static constexpr uint32_t kSharedBytes = kBarriers + 8 * kNumBarriers + kSwizzleAlignment;
  // Of a stage: codes arrive in the last rows of 128 bytes of the tile, a key each.
  static constexpr uint32_t kCodesAt = kTileBytes - kSliceBytes;
  // With three warpgroups, 65,536 registers are 168 for each of 384 threads: 40 of those that load, 232 of the others;
  // with four, 128 of 512: 40 and 216. With two, 256 threads have up to 255 each.
  static constexpr bool kMovesRegisters = kThreads > 256;
  static constexpr int kRegisters = kThreads == 512 ? 216 : 232;  // of those that multiply
  static_assert(kSharedBytes <= 227 * 1024);
};

struct WgmmaFlashCall {
  AttentionCall call;
  TensorMap
      keys;  // boxes of box_keys rows by 128 bytes: dims, keys of a page or sequence, KV heads, pages or sequences
  TensorMap values;
  PartialStore parts;
  int32_t row_blocks;   // per (sequence, KV head)
  int32_t box_keys;     // a divisor of kWgmmaKeys
  bool whole_queries;   // FP32 or of the operand's format; rows are 16-byte aligned
  bool paired_outputs;  // two neighbours are aligned to their size
};

DUNLIN_HD constexpr bool E4M3IsFinite(uint32_t code) {
  return (code & 0x7FU) != 0x7FU;
}

// Blocks with the most keys first, over all sequences; parts of a task are adjacent.
DUNLIN_HD inline BlockPlace WgmmaFlashPlaceOf(const WgmmaFlashCall& flash, int64_t index) {
  BlockPlace place{};
  const int32_t parts = flash.parts.data == nullptr ? 1 : flash.parts.num_parts;
  place.part = static_cast<int32_t>(index % parts);
  index /= parts;
  const int32_t tasks = flash.call.num_sequences * flash.call.num_kv_heads;
  const auto task = static_cast<int32_t>(index % tasks);
  place.row_block = flash.row_blocks - 1 - static_cast<int32_t>(index / tasks);
  place.sequence = task / flash.call.num_kv_heads;
  place.kv_head = task % flash.call.num_kv_heads;
  return place;
}

// Tiles [first, end) that a block walks through.
struct WgmmaTiles {
  int32_t first;
  int32_t end;
};
DUNLIN_HD inline WgmmaTiles WgmmaTilesOf(const RowBlock& rows, bool in_parts, int32_t part) {
  constexpr int32_t kSplitTiles = kWgmmaSplitKeys / kWgmmaKeys;
  const WgmmaTiles tiles{rows.key_start / kWgmmaKeys, (rows.key_limit + kWgmmaKeys - 1) / kWgmmaKeys};
  if (!in_parts) return tiles;
  return {AtLeast(tiles.first, part * kSplitTiles), AtMost(tiles.end, (part + 1) * kSplitTiles)};
}

// The place in a ring of stages, and the parity of its phase.
struct WgmmaFlashStage {
  int index = 0;
  uint32_t parity = 0;
  DUNLIN_HD void Next() {
    if (++index < kWgmmaStages) return;
    index = 0;
    parity ^= 1;
  }
};

// What every thread of a block knows.
template <typename Shape, typename Block>
struct WgmmaFlashBlock {
  const Block& block;
  const WgmmaFlashCall& flash;
  const RowBlock& rows;
  WgmmaTiles tiles;
  int32_t part;
  uint32_t shared;

  DUNLIN_HD uint32_t queries(int warpgroup) const { return shared + warpgroup * Shape::kQueryBytes; }
  DUNLIN_HD uint32_t keys(int stage) const { return shared + Shape::kKeys + stage * Shape::kTileBytes; }
  DUNLIN_HD uint32_t values(int stage) const { return shared + Shape::kValues + stage * Shape::kTileBytes; }
  // Not zero where the values of a stage had visible elements that are not finite, and are zeros now.
  DUNLIN_HD uint32_t flag(int stage) const { return shared + Shape::kFlags + Shape::kFlagBytes * stage; }
  DUNLIN_HD uint32_t barrier(int index) const { return shared + Shape::kBarriers + 8 * index; }
  DUNLIN_HD uint32_t keys_full(int stage) const { return barrier(stage); }
  DUNLIN_HD uint32_t keys_empty(int stage) const { return barrier(kWgmmaStages + stage); }
  DUNLIN_HD uint32_t values_full(int stage) const { return barrier(2 * kWgmmaStages + stage); }
  DUNLIN_HD uint32_t values_empty(int stage) const { return barrier(3 * kWgmmaStages + stage); }
  // Values that have to be looked through before they are full; of codes, the scales of a tile's values.
  DUNLIN_HD uint32_t values_arrived() const { return barrier(4 * kWgmmaStages); }
  DUNLIN_HD uint32_t value_scales_full() const { return barrier(4 * kWgmmaStages); }
  DUNLIN_HD uint32_t key_codes_arrived(int stage) const { return barrier(4 * kWgmmaStages + 1 + stage); }
  DUNLIN_HD uint32_t value_codes_arrived(int stage) const { return barrier(5 * kWgmmaStages + 1 + stage); }
  DUNLIN_HD uint32_t value_scales_empty() const { return barrier(6 * kWgmmaStages + 1); }
  DUNLIN_HD uint32_t key_scales(int stage) const { return shared + Shape::kScales + stage * Shape::kScaleBytes; }
  DUNLIN_HD uint32_t value_scales() const { return key_scales(kWgmmaStages); }
  DUNLIN_HD int warpgroups() const { return (rows.num_rows + 63) / 64; }  // that have rows
  // Where the box of a key starts: a slot of a page, or a key of a sequence. Past the sequence's end of no page.
  struct BoxPlace {
    int32_t slot;
    int32_t page;
  };
  DUNLIN_HD BoxPlace PlaceOfBox(int32_t key) const {
    const SequenceView& sequence = rows.sequence;
    if (sequence.pages == nullptr) return {key, sequence.index};
    const int32_t shift = flash.call.page_shift;
    return {key & ((1 << shift) - 1), key < sequence.kv_len ? sequence.pages[key >> shift] : kWgmmaPagesEnd};
  }
  // Whether some row sees only a part of the tile's keys.
  DUNLIN_HD bool Cut(int32_t tile) const { return !rows.SeesAll(tile * kWgmmaKeys, kWgmmaKeys); }
};

}  // namespace dunlin::kernels::cuda
