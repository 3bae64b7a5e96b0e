// SPDX-License-Identifier: Apache-2.0
// The warps of a block that load: one the keys, one the values, by TMA, a box per page and 128 bytes of a row, each
// lane its own boxes. Values of tiles that some row sees only in part are looked through on the way, since the tensor
// cores would multiply what is not finite by a weight of 0: slots past the sequence's end become zeros, visible
// elements that are not finite, too, and a flag tells. (Warpgroups that share rows do so themselves, all at once.)
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_call.h"
#include "kernels/cuda/block/tensor_core.h"

namespace dunlin::kernels::cuda {

// Zeros for elements of a piece that are not finite, all where no row sees it. Returns whether there were any.
template <typename Format, typename Block>
DUNLIN_DEVICE bool CleanPiece(const Block& block, uint32_t at, bool present) {
  uint32_t piece[4];
  block.LoadPiece(piece, at);
  bool changed = false;
  DUNLIN_UNROLL
  for (uint32_t& pair : piece) {
    uint32_t kept = Format::IsFinite(static_cast<uint16_t>(pair)) ? pair & 0xFFFFU : 0U;
    kept |= Format::IsFinite(static_cast<uint16_t>(pair >> 16)) ? pair & 0xFFFF0000U : 0U;
    if (!present) kept = 0;
    if (kept != pair) changed = true;
    pair = kept;
  }
  if (changed) block.StorePiece(at, piece);
  return changed;
}

template <typename Shape, typename Block>
struct WgmmaFlashLoader {
  const WgmmaFlashBlock<Shape, Block>& at;

  // The lane's boxes of a tile into a stage. Boxes past the sequence's end are zeros: in pages those of no page, in
  // dense tensors what lies outside of the map.
  DUNLIN_DEVICE void LoadTile(const TensorMap& map, int32_t tile, uint32_t to, uint32_t barrier, int lane) const {
    const int32_t box_keys = at.flash.box_keys;
    DUNLIN_NO_UNROLL
    for (int32_t first = lane * box_keys; first < Shape::kTileKeys; first += kWarpLanes * box_keys) {
      const auto [slot, page] = at.PlaceOfBox(tile * Shape::kTileKeys + first);
      DUNLIN_UNROLL
      for (int slice = 0; slice < Shape::kSlices; ++slice) {
        at.block.LoadBox(to + slice * Shape::kSliceBytes + first * kSwizzleRowBytes, map, barrier, slice * 64, slot,
                         at.task.rows.kv_head, page);
      }
    }
  }

  DUNLIN_DEVICE void Begin(uint32_t barrier, int lane) const {
    if (lane == 0) at.block.ArriveExpecting(barrier, Shape::kTileBytes);
    at.block.SyncWarp();
  }

  DUNLIN_DEVICE void LoadKeys(int lane, WgmmaFlashStage* stage) const {
    for (int32_t tile = at.task.tiles.first; tile < at.task.tiles.end; ++tile, stage->Next(Shape::kStages)) {
      at.block.Wait(at.keys_empty(stage->index), stage->parity ^ 1);
      Begin(at.keys_full(stage->index), lane);
      LoadTile(at.flash.keys, tile, at.keys(stage->index), at.keys_full(stage->index), lane);
      at.block.SyncWarp();
    }
  }

  DUNLIN_DEVICE void LoadValues(int lane, WgmmaFlashRings* rings) const {
    WgmmaFlashStage* stage = &rings->values;
    for (int32_t tile = at.task.tiles.first; tile < at.task.tiles.end; ++tile, stage->Next(Shape::kStages)) {
      at.block.Wait(at.values_empty(stage->index), stage->parity ^ 1);
      const bool cut = !Shape::kSharesRows && at.Cut(tile);
      const uint32_t barrier = cut ? at.values_arrived() : at.values_full(stage->index);
      Begin(barrier, lane);
      LoadTile(at.flash.values, tile, at.values(stage->index), barrier, lane);
      at.block.SyncWarp();
      if (!cut) continue;
      at.block.Wait(barrier, rings->parity);
      rings->parity ^= 1;
      Clean(tile, stage->index, lane);
      if (lane == 0) at.block.Arrive(at.values_full(stage->index));
    }
  }

  // Zeros for what no row sees or is not finite, and the stage's flag.
  DUNLIN_DEVICE void Clean(int32_t tile, int stage, int lane) const {
    const int32_t present = at.task.rows.sequence.kv_len - tile * Shape::kTileKeys;
    uint32_t found = 0;
    DUNLIN_NO_UNROLL
    for (uint32_t offset = lane * kPieceBytes; offset < Shape::kTileBytes; offset += kWarpLanes * kPieceBytes) {
      const auto row = static_cast<int32_t>(offset / kSwizzleRowBytes % Shape::kTileKeys);
      if (CleanPiece<typename Shape::Format>(at.block, at.values(stage) + offset, row < present) && row < present)
        found = 1;
    }
    DUNLIN_UNROLL
    for (int mask = 1; mask < kWarpLanes; mask *= 2) found |= at.block.ShuffleXor(found, mask);
    const uint32_t flag[4] = {found, 0, 0, 0};
    if (lane == 0) at.block.StorePiece(at.flag(stage), flag);
    at.block.FenceAsync();
    at.block.SyncWarp();
  }
};

}  // namespace dunlin::kernels::cuda
