// SPDX-License-Identifier: Apache-2.0
// One launch of FLASH or EFFICIENT by wgmma, and what its blocks keep in shared memory. A block has 64 packed rows of
// one (sequence, KV head) for each warpgroup that multiplies, and walks through tiles of 128 keys (64 of heads of more
// than 128 dims) in ascending order. Keys are split at absolute multiples of 1,024 (EFFICIENT: 256), each split has a
// softmax of its own, and splits are merged in ascending order: in the block where it walks through all of them, else
// by the merge kernel, with the same bits. A row's result depends on neither the number of warpgroups nor the rows
// beside it: wgmma adds in the order of k, whatever else it multiplies. E4M3 codes are widened to BF16 on the way:
// where every scale is 1 the bits are those of BF16 pages with the same values. Outputs of 128 rows by 256 columns, or
// of 64 by 512, which two warpgroups share, leave no shared memory for the totals of the splits before: a launch of
// such blocks has at most one for each multiprocessor, which takes one task after another and keeps its totals in
// memory.
#pragma once

#include "kernels/cuda/attention/launch_plan.h"
#include "kernels/cuda/block/block_program.h"
#include "kernels/cuda/sm90/descriptor.h"
#include "kernels/cuda/sm90/tensor_map.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kWgmmaSplitKeys = 1024;             // of a split of FLASH
inline constexpr int32_t kWgmmaChunkKeys = 256;              // of a split of EFFICIENT
inline constexpr int32_t kWgmmaMinPageTokens = 8;            // a box starts at a multiple of the swizzle's eight rows
inline constexpr int32_t kWgmmaPagesEnd = 1 << 30;           // the index of no page: its boxes are zeros
inline constexpr float kWgmmaSoftcapMax = 128.0F;            // an exponent of 2 within 2^-12 (CappedExponent)
inline constexpr int64_t kWgmmaTasksMax = int64_t{1} << 30;  // of a launch
inline constexpr size_t kWgmmaTotalBytes = size_t{128} * 256 * 4;  // of a block that keeps its totals in memory

// kDims: of heads, at most; 64, 128 or 256. kOfCodes: pages hold E4M3 codes, which become operands of the format. Byte
// offsets in shared memory, from a multiple of kSwizzleAlignment on.
template <typename OperandFormat, int kDims, int kWarpgroupCount, bool kOfCodes = false>
struct WgmmaFlashShape {
  using Format = OperandFormat;
  static constexpr bool kAdjusts = false;  // WgmmaAdjusted
  static constexpr bool kCodes = kOfCodes;
  static constexpr DType kDType = kCodes ? DType::kF8E4M3 : Format::kDType;  // of keys and values
  static constexpr int kDim = kDims;
  static constexpr int kSlices = kDim / 64;                // of 128 bytes of a row
  static constexpr int kTileKeys = kDim > 128 ? 64 : 128;  // of a tile
  static constexpr int kStages = 2;                        // of keys, and of values
  static constexpr int kWarpgroups = kWarpgroupCount;
  static constexpr int kRows = 64 * kWarpgroups;
  static constexpr bool kValuesInKeys = false;
  static constexpr bool kSharesRows = false;                          // each warpgroup has 64 rows of its own,
  static constexpr int kScoreKeys = kTileKeys;                        // and of these all scores
  static constexpr int kColumns = kDim;                               // and columns
  static constexpr bool kPersistent = kDim > 128 && kWarpgroups > 1;  // blocks take several tasks
  // The last warpgroup loads; of codes the last two, whose first warp loads while the others widen. One warpgroup alone
  // in prefill of 256 dims: of 512 threads each would start with fewer registers than the product needs.
  static constexpr int kLoadWarpgroups = kCodes && !kPersistent ? 2 : 1;
  static constexpr int kWideners = kCodes ? 4 * kLoadWarpgroups - 1 : 0;  // warps
  static constexpr int kThreads = 128 * (kWarpgroups + kLoadWarpgroups);
  static constexpr uint32_t kQuerySliceBytes = 64 * kSwizzleRowBytes;
  static constexpr uint32_t kQueryBytes = kSlices * kQuerySliceBytes;  // of a warpgroup
  static constexpr uint32_t kSliceBytes = kTileKeys * kSwizzleRowBytes;
  static constexpr uint32_t kTileBytes = kSlices * kSliceBytes;
  static constexpr uint32_t kKeys = kWarpgroups * kQueryBytes;
  static constexpr uint32_t kValues = kKeys + kStages * kTileBytes;
  static constexpr uint32_t kTotalBytes = kRows * kDim * 4;                      // FP32 rows of the splits so far
  static constexpr uint32_t kTotals = kValues + kStages * kTileBytes;            // unless they are in memory
  static constexpr uint32_t kFlags = kTotals + (kPersistent ? 0 : kTotalBytes);  // a piece per stage of values
  static constexpr uint32_t kFlagBytes = kCodes ? 32 : 16;  // of a stage: a word per warp that looks through it
  static constexpr uint32_t kScales = kFlags + kFlagBytes * kStages;
  static constexpr uint32_t kScaleBytes = kTileKeys * 4;  // of a tile's keys, in each stage, and of its values, in one
  static constexpr uint32_t kBarriers = kScales + (kCodes ? (kStages + 1) * kScaleBytes : 0);
  static constexpr uint32_t kNumBarriers = kCodes ? 6 * kStages + 2 : 4 * kStages + 1;
  static constexpr uint32_t kSharedBytes = kBarriers + 8 * kNumBarriers + kSwizzleAlignment;
  // Of a stage: codes arrive in the last slices of the tile, 128 dims in each, a key in each row.
  static constexpr int kCodeSlices = kCodes ? (kDim + 127) / 128 : 0;
  static constexpr uint32_t kCodeBytes = kCodeSlices * kSliceBytes;
  static constexpr uint32_t kCodesAt = kTileBytes - kCodeBytes;
  // 65,536 registers are 168 for each of 384 threads, 128 of 512, which those that load lower for the others. Two
  // warpgroups have up to 255 each.
  static constexpr bool kMovesRegisters = kThreads > 256;
  static constexpr int kLoadRegisters = kCodes && kPersistent ? 56 : 40;
  static constexpr int kRegisters = kThreads == 512 ? 216 : kWarpgroups == 1 ? 240 : (504 - kLoadRegisters) / 2;
  static_assert(kSharedBytes <= 227 * 1024);
  static_assert(!kPersistent || kTotalBytes == kWgmmaTotalBytes);
};

// The shape of blocks that adjust scores: by a soft cap, by ALiBi, or by both. A kernel of its own, since either would
// cost the others registers and time; one for both, since a launch's blocks take the same branches, once a tile.
template <typename PlainShape>
struct WgmmaAdjusted : PlainShape {
  static constexpr bool kAdjusts = true;
};

// Blocks of more than 256 dims. Both warpgroups have the same 64 rows: each computes the scores of half of a tile's
// keys, and half of the 512 columns. Weights pass through shared memory, as do the largest scores and the sums of
// either half. One shape for both phases. kInKeys: the last 512 dims of the keys are the values, which are multiplied
// where the keys lie, in two stages; otherwise keys and values have a stage each, and those of a tile arrive while the
// other's are multiplied.
template <typename OperandFormat, int kDims, bool kInKeys, bool kOfCodes = false>
struct WgmmaSharedRowsShape {
  using Format = OperandFormat;
  static constexpr bool kAdjusts = false;
  static constexpr bool kCodes = kOfCodes;
  static constexpr DType kDType = kCodes ? DType::kF8E4M3 : Format::kDType;
  static constexpr int kDim = kDims;
  static constexpr int kValueDim = 512;
  static constexpr int kSlices = kDim / 64;
  static constexpr int kTileKeys = 64;
  static constexpr int kStages = kInKeys ? 2 : 1;
  static constexpr int kWarpgroups = 2;
  static constexpr int kRows = 64;
  static constexpr bool kValuesInKeys = kInKeys;
  static constexpr bool kSharesRows = true;
  static constexpr int kScoreKeys = kTileKeys / kWarpgroups;
  static constexpr int kColumns = kValueDim / kWarpgroups;
  static constexpr bool kPersistent = true;
  static constexpr int kWideners = kCodes ? 3 : 0;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  static constexpr uint32_t kQuerySliceBytes = 64 * kSwizzleRowBytes;
  static constexpr uint32_t kQueryBytes = kSlices * kQuerySliceBytes;
  static constexpr uint32_t kSliceBytes = kTileKeys * kSwizzleRowBytes;
  static constexpr uint32_t kTileBytes = kSlices * kSliceBytes;
  static constexpr uint32_t kKeys = kQueryBytes;
  static constexpr uint32_t kValues = kKeys + (kInKeys ? kSlices - kValueDim / 64 : kSlices) * kSliceBytes;
  static constexpr uint32_t kWeights = kKeys + 2 * kTileBytes;                 // [64 rows, 64 keys]
  static constexpr uint32_t kExchange = kWeights + kRows * kSwizzleRowBytes;   // maxima, sums: [2, 64 rows] FP32 each
  static constexpr uint32_t kFlags = kExchange + 2 * kWarpgroups * kRows * 4;  // a word per warp that looks through
  static constexpr uint32_t kFlagBytes = 4 * 4 * kWarpgroups;
  static constexpr uint32_t kScales = kFlags + kFlagBytes;
  static constexpr uint32_t kScaleBytes = kTileKeys * 4;
  static constexpr uint32_t kBarriers = kScales + (kCodes ? 2 * kScaleBytes : 0);
  static constexpr uint32_t kNumBarriers = kCodes ? 6 * kStages + 2 : 4 * kStages + 1;
  static constexpr uint32_t kSharedBytes = kBarriers + 8 * kNumBarriers + kSwizzleAlignment;
  static constexpr int kCodeSlices = kCodes ? kDim / 128 : 0;
  static constexpr uint32_t kCodeBytes = kCodeSlices * kSliceBytes;
  static constexpr uint32_t kCodesAt = kTileBytes - kCodeBytes;
  static constexpr bool kMovesRegisters = true;
  static constexpr int kLoadRegisters = kCodes ? 56 : 40;
  static constexpr int kRegisters = (504 - kLoadRegisters) / 2;
  static_assert(kSharedBytes <= 227 * 1024);
  static_assert(size_t{kRows} * kValueDim * 4 == kWgmmaTotalBytes);
};

// Latent rows of 576 dims.
template <typename OperandFormat>
struct WgmmaLatentShape : WgmmaSharedRowsShape<OperandFormat, 576, true> {};

// Heads of more than 256 and up to 512 dims.
template <typename OperandFormat, bool kOfCodes = false>
struct WgmmaWideShape : WgmmaSharedRowsShape<OperandFormat, 512, false, kOfCodes> {};

struct WgmmaFlashCall {
  AttentionCall call;
  TensorMap
      keys;  // boxes of box_keys rows by 128 bytes: dims, keys of a page or sequence, KV heads, pages or sequences
  TensorMap values;
  PartialStore parts;
  float* totals;        // kWgmmaTotalBytes for each block of the launch; null: no block merges splits
  int32_t tasks;        // blocks of rows times parts; those of the launch, or more where blocks take several
  int32_t row_blocks;   // per (sequence, KV head)
  int32_t split_tiles;  // a power of two
  int32_t box_keys;     // a divisor of a tile's
  bool whole_queries;   // FP32 or of the operand's format; rows are 16-byte aligned
  bool paired_outputs;  // two neighbours are aligned to their size
  float cap;            // of adjusted scores, as an exponent of 2; 0: none
  float cap_factor;     // of a product, to an exponent of 2: e^(2 score / softcap)
};

DUNLIN_HD constexpr bool E4M3IsFinite(uint32_t code) {
  return (code & 0x7FU) != 0x7FU;
}

// Tasks with the most keys first, over all sequences; parts of a block of rows are adjacent.
DUNLIN_HD inline BlockPlace WgmmaFlashPlaceOf(const WgmmaFlashCall& flash, int32_t index) {
  BlockPlace place{};
  const int32_t parts = flash.parts.data == nullptr ? 1 : flash.parts.num_parts;
  place.part = index % parts;
  index /= parts;
  const int32_t tasks = flash.call.num_sequences * flash.call.num_kv_heads;
  const int32_t task = index % tasks;
  place.row_block = flash.row_blocks - 1 - index / tasks;
  place.sequence = task / flash.call.num_kv_heads;
  place.kv_head = task % flash.call.num_kv_heads;
  return place;
}

template <typename Shape>
DUNLIN_HD RowBlock WgmmaFlashRowsOf(const WgmmaFlashCall& flash, const BlockPlace& place) {
  return BlockOf(flash.call, place.sequence, place.kv_head, place.row_block, Shape::kRows);
}

// Tiles [first, end) that a block walks through.
struct WgmmaTiles {
  int32_t first;
  int32_t end;
};
template <typename Shape>
DUNLIN_HD WgmmaTiles WgmmaTilesOf(const WgmmaFlashCall& flash, const RowBlock& rows, int32_t part) {
  const WgmmaTiles tiles{rows.key_start / Shape::kTileKeys, (rows.key_limit + Shape::kTileKeys - 1) / Shape::kTileKeys};
  if (flash.parts.data == nullptr) return tiles;
  return {AtLeast(tiles.first, part * flash.split_tiles), AtMost(tiles.end, (part + 1) * flash.split_tiles)};
}

// What a block does at once: some of its launch's tasks have no rows, or no keys of their part.
struct WgmmaFlashTask {
  int32_t index;
  RowBlock rows;
  WgmmaTiles tiles;
  int32_t part;
};

// Which task block `block` of `blocks` takes in its turn `turn`: in every second turn in reverse, so that no block has
// the longest of each.
DUNLIN_HD constexpr int32_t WgmmaFlashTaskOf(int32_t turn, int32_t block, int32_t blocks) {
  return turn * blocks + (turn % 2 == 0 ? block : blocks - 1 - block);
}

// The first task of the block from *turn on, which becomes the turn after it; false: none is left.
template <typename Shape>
DUNLIN_HD bool FindWgmmaFlashTask(const WgmmaFlashCall& flash, int32_t block, int32_t blocks, int32_t* turn,
                                  WgmmaFlashTask* task) {
  const bool in_parts = flash.parts.data != nullptr;
  for (int32_t first = *turn * blocks; first < flash.tasks; first += blocks) {
    const int32_t index = Shape::kPersistent ? WgmmaFlashTaskOf((*turn)++, block, blocks) : block;
    if (index < flash.tasks) {
      const BlockPlace place = WgmmaFlashPlaceOf(flash, index);
      task->index = index;
      task->rows = WgmmaFlashRowsOf<Shape>(flash, place);
      task->tiles = WgmmaTilesOf<Shape>(flash, task->rows, place.part);
      task->part = place.part;
      if (task->rows.num_rows > 0 && (!in_parts || task->tiles.first < task->tiles.end)) return true;
    }
    if constexpr (!Shape::kPersistent) return false;
  }
  return false;
}

// The place in a ring of stages, and the parity of its phase.
struct WgmmaFlashStage {
  int index = 0;
  uint32_t parity = 0;
  DUNLIN_HD void Next(int stages) {
    if (++index < stages) return;
    index = 0;
    parity ^= 1;
  }
};

// The places in the rings that go on from task to task.
struct WgmmaFlashRings {
  WgmmaFlashStage keys;
  WgmmaFlashStage values;
  uint32_t parity = 0;  // of a barrier of one place
};

// What every thread of a block knows of its task.
template <typename Shape, typename Block>
struct WgmmaFlashBlock {
  const Block& block;
  const WgmmaFlashCall& flash;
  const WgmmaFlashTask& task;
  uint32_t shared;

  DUNLIN_HD uint32_t queries(int warpgroup) const { return shared + warpgroup * Shape::kQueryBytes; }
  DUNLIN_HD uint32_t keys(int stage) const { return shared + Shape::kKeys + stage * Shape::kTileBytes; }
  DUNLIN_HD uint32_t values(int stage) const { return shared + Shape::kValues + stage * Shape::kTileBytes; }
  // Not zero where the values of a stage had visible elements that are not finite, and are zeros now.
  DUNLIN_HD uint32_t flag(int stage) const { return shared + Shape::kFlags + Shape::kFlagBytes * stage; }
  DUNLIN_HD uint32_t barrier(int index) const { return shared + Shape::kBarriers + 8 * index; }
  DUNLIN_HD uint32_t keys_full(int stage) const { return barrier(stage); }
  DUNLIN_HD uint32_t keys_empty(int stage) const { return barrier(Shape::kStages + stage); }
  DUNLIN_HD uint32_t values_full(int stage) const { return barrier(2 * Shape::kStages + stage); }
  DUNLIN_HD uint32_t values_empty(int stage) const { return barrier(3 * Shape::kStages + stage); }
  // Values that have to be looked through before they are full; of codes, the scales of a tile's values.
  DUNLIN_HD uint32_t values_arrived() const { return barrier(4 * Shape::kStages); }
  DUNLIN_HD uint32_t value_scales_full() const { return barrier(4 * Shape::kStages); }
  DUNLIN_HD uint32_t key_codes_arrived(int stage) const { return barrier(4 * Shape::kStages + 1 + stage); }
  DUNLIN_HD uint32_t value_codes_arrived(int stage) const { return barrier(5 * Shape::kStages + 1 + stage); }
  DUNLIN_HD uint32_t value_scales_empty() const { return barrier(6 * Shape::kStages + 1); }
  // Where warpgroups share rows: weights, exchanged maxima and sums.
  DUNLIN_HD uint32_t weights() const { return shared + Shape::kWeights; }
  DUNLIN_HD uint32_t maxima() const { return shared + Shape::kExchange; }
  DUNLIN_HD uint32_t sums() const { return shared + Shape::kExchange + Shape::kWarpgroups * Shape::kRows * 4; }
  DUNLIN_HD uint32_t key_scales(int stage) const { return shared + Shape::kScales + stage * Shape::kScaleBytes; }
  DUNLIN_HD uint32_t value_scales() const { return key_scales(Shape::kStages); }
  // The task's rows, found again: tiles are walked through without registers for what is needed at their end.
  DUNLIN_DEVICE RowBlock RowsAgain() const {
    return WgmmaFlashRowsOf<Shape>(flash, WgmmaFlashPlaceOf(flash, block.Again(task.index)));
  }
  // That have rows; where blocks take several tasks all take part in each.
  DUNLIN_HD int warpgroups() const { return Shape::kPersistent ? Shape::kWarpgroups : (task.rows.num_rows + 63) / 64; }
  // Where the box of a key starts: a slot of a page, or a key of a sequence. Past the sequence's end of no page.
  struct BoxPlace {
    int32_t slot;
    int32_t page;
  };
  DUNLIN_HD BoxPlace PlaceOfBox(int32_t key) const {
    const SequenceView& sequence = task.rows.sequence;
    if (sequence.pages == nullptr) return {key, sequence.index};
    const int32_t shift = flash.call.page_shift;
    return {key & ((1 << shift) - 1), key < sequence.kv_len ? sequence.pages[key >> shift] : kWgmmaPagesEnd};
  }
  DUNLIN_HD bool BeginsSplit(int32_t tile) const { return (tile & (flash.split_tiles - 1)) == 0; }
  // A warp that multiplies gives a stage back, after what all of its lanes have read of it.
  DUNLIN_DEVICE void Release(int thread, uint32_t empty) const {
    block.SyncWarp();
    if (thread % kWarpLanes == 0) block.Arrive(empty);
  }
  // Whether some row sees only a part of the tile's keys.
  DUNLIN_HD bool Cut(int32_t tile) const { return !task.rows.SeesAll(tile * Shape::kTileKeys, Shape::kTileKeys); }
};

}  // namespace dunlin::kernels::cuda
