// SPDX-License-Identifier: Apache-2.0
// The warps of a block that load E4M3 pages: one fetches codes by TMA and the scales of their pages, the others widen a
// tile where it has arrived, each its own rows, into the layout that TMA gives 16-bit elements. A code takes one byte
// of the memory's bandwidth and multiplies as BF16, exactly: E4M3 operands would need queries and weights of four
// significant bits. As of 16-bit values, what is not finite is taken out of tiles that some row sees only in part.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_call.h"
#include "kernels/cuda/block/tensor_core.h"

namespace dunlin::kernels::cuda {

// Two codes, the low 16 bits, as a pair of the format; exact in FP16 and BF16.
template <typename Format>
DUNLIN_DEVICE uint32_t WidenPair(uint32_t codes) {
#ifdef __CUDA_ARCH__
  static_assert(Format::kDType == DType::kBF16);
  uint32_t pair;
  asm("{\n.reg .b16 both, low, high;\n.reg .b32 unused, halves;\n.reg .f32 first, second;\n"
      "cvt.u16.u32 both, %1;\ncvt.rn.f16x2.e4m3x2 halves, both;\nmov.b32 {low, high}, halves;\n"
      "cvt.f32.f16 first, low;\ncvt.f32.f16 second, high;\ncvt.rn.bf16x2.f32 %0, second, first;\n}"
      : "=r"(pair)
      : "r"(codes));
  return pair;
#else
  return PackPair<Format>(FromE4M3(static_cast<uint8_t>(codes)), FromE4M3(static_cast<uint8_t>(codes >> 8)));
#endif
}

template <typename Shape, typename Block>
struct WgmmaFlashCodes {
  using Format = typename Shape::Format;
  static constexpr int kPieces = Shape::kDim / 16;  // of 16 codes, of a row: a lane's
  static constexpr int kGroupRows = kWarpLanes / kPieces;
  static constexpr int kGroups = Shape::kTileKeys / kGroupRows;  // of rows that a warp widens at once
  static constexpr int kGroupsAhead = 2;                         // that it has read before it writes

  const WgmmaFlashBlock<Shape, Block>& at;

  // --- One warp loads. The lane's boxes of a tile; as with 16-bit elements, but for their width.
  DUNLIN_DEVICE void LoadCodes(const TensorMap& map, int32_t tile, uint32_t stage, uint32_t barrier, int lane) const {
    const int32_t box_keys = at.flash.box_keys;
    DUNLIN_NO_UNROLL
    for (int32_t first = lane * box_keys; first < Shape::kTileKeys; first += kWarpLanes * box_keys) {
      const auto [slot, page] = at.PlaceOfBox(tile * Shape::kTileKeys + first);
      DUNLIN_UNROLL
      for (int slice = 0; slice < Shape::kCodeSlices; ++slice) {
        at.block.LoadBox(stage + Shape::kCodesAt + slice * Shape::kSliceBytes + first * kSwizzleRowBytes, map, barrier,
                         slice * static_cast<int32_t>(kSwizzleRowBytes), slot, at.task.rows.kv_head, page);
      }
    }
  }

  // The scales of a tile's keys or values, and their bytes: of pages that the sequence has. The others' are never used.
  DUNLIN_DEVICE void LoadScales(const KvTensor& tensor, int32_t tile, uint32_t to, uint32_t barrier, int lane) const {
    const int32_t box_keys = at.flash.box_keys;
    const unsigned char* scales = tensor.data + at.task.rows.kv_head * tensor.head_bytes + tensor.scale_offset;
    DUNLIN_NO_UNROLL
    for (int32_t first = lane * box_keys; first < Shape::kTileKeys; first += kWarpLanes * box_keys) {
      const int32_t key = tile * Shape::kTileKeys + first;
      if (key >= at.task.rows.sequence.kv_len) break;
      const auto [slot, page] = at.PlaceOfBox(key);
      at.block.LoadBytes(to + first * 4, scales + page * at.flash.call.page_bytes + slot * 4, box_keys * 4, barrier);
    }
  }
  DUNLIN_DEVICE uint32_t ScaleBytes(int32_t tile) const {
    const int32_t keys = AtMost(at.task.rows.sequence.kv_len - tile * Shape::kTileKeys, Shape::kTileKeys);
    return static_cast<uint32_t>((keys + at.flash.box_keys - 1) / at.flash.box_keys * at.flash.box_keys * 4);
  }

  DUNLIN_DEVICE void Begin(uint32_t barrier, uint32_t bytes, int lane) const {
    if (lane == 0) at.block.ArriveExpecting(barrier, bytes);
    at.block.SyncWarp();
  }

  // In the order in which their places become free: the next tile's keys, the scales of the tile's values, of which
  // there is one place, then its values.
  DUNLIN_DEVICE void Load(int lane, WgmmaFlashRings* rings) const {
    const AttentionCall& call = at.flash.call;
    WgmmaFlashStage* keys = &rings->keys;
    WgmmaFlashStage* values = &rings->values;
    for (int32_t tile = at.task.tiles.first - 1; tile < at.task.tiles.end; ++tile) {
      if (tile + 1 < at.task.tiles.end) {
        at.block.Wait(at.keys_empty(keys->index), keys->parity ^ 1);
        const uint32_t barrier = at.key_codes_arrived(keys->index);
        Begin(barrier, Shape::kCodeBytes + ScaleBytes(tile + 1), lane);
        LoadCodes(at.flash.keys, tile + 1, at.keys(keys->index), barrier, lane);
        LoadScales(call.keys, tile + 1, at.key_scales(keys->index), barrier, lane);
        at.block.SyncWarp();
        keys->Next(Shape::kStages);
      }
      if (tile < at.task.tiles.first) continue;
      at.block.Wait(at.value_scales_empty(), rings->parity ^ 1);
      rings->parity ^= 1;
      Begin(at.value_scales_full(), ScaleBytes(tile), lane);
      LoadScales(call.values, tile, at.value_scales(), at.value_scales_full(), lane);
      at.block.Wait(at.values_empty(values->index), values->parity ^ 1);
      Begin(at.value_codes_arrived(values->index), Shape::kCodeBytes, lane);
      LoadCodes(at.flash.values, tile, at.values(values->index), at.value_codes_arrived(values->index), lane);
      at.block.SyncWarp();
      values->Next(Shape::kStages);
    }
  }

  // --- The others widen. Zeros for codes that no row sees or that are not finite; whether there are any of these.
  DUNLIN_DEVICE static uint32_t Clean(bool present, uint32_t (&codes)[4]) {
    uint32_t found = 0;
    DUNLIN_UNROLL
    for (uint32_t& word : codes) {
      DUNLIN_UNROLL
      for (int shift = 0; shift < 32; shift += 8) {
        if (E4M3IsFinite(word >> shift)) continue;
        word &= ~(0xFFU << shift);
        found = 1;
      }
      if (!present) word = 0;
    }
    return present ? found : 0;
  }

  // 16 codes as two pieces of elements, of lanes that share a row in banks of their own.
  DUNLIN_DEVICE void StoreElements(uint32_t stage, int row, int piece, const uint32_t (&codes)[4]) const {
    const uint32_t slice = stage + piece / 4 * Shape::kSliceBytes;
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int side = (half + piece / 4) % 2;
      uint32_t elements[4];
      DUNLIN_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = side == 0 ? codes[i / 2] : codes[2 + i / 2];
        elements[i] = WidenPair<Format>(word >> (i % 2 * 16));
      }
      at.block.StorePiece(slice + Swizzled(row * kSwizzleRowBytes + (piece % 4 * 2 + side) * kPieceBytes), elements);
    }
  }

  // The warp's rows of a tile, in place: a row's elements replace codes of that row alone. Returns whether some of
  // `present` rows have codes that are not finite; kCleans: these and the rows behind become zeros.
  template <bool kCleans>
  DUNLIN_DEVICE uint32_t WidenRows(uint32_t stage, int32_t present, int widener, int lane) const {
    const int piece = lane % kPieces;
    uint32_t found = 0;
    DUNLIN_NO_UNROLL
    for (int first = widener; first < kGroups; first += kGroupsAhead * Shape::kWideners) {
      uint32_t codes[kGroupsAhead][4];
      DUNLIN_UNROLL
      for (int i = 0; i < kGroupsAhead; ++i) {
        const int group = first + i * Shape::kWideners;
        const int row = group * kGroupRows + lane / kPieces;
        if (group < kGroups) {
          at.block.LoadPiece(codes[i], stage + Shape::kCodesAt + piece / 8 * Shape::kSliceBytes +
                                           row * kSwizzleRowBytes + piece % 8 * kPieceBytes);
        }
      }
      at.block.SyncWarp();
      DUNLIN_UNROLL
      for (int i = 0; i < kGroupsAhead; ++i) {
        const int group = first + i * Shape::kWideners;
        const int row = group * kGroupRows + lane / kPieces;
        if (group >= kGroups) break;
        if constexpr (kCleans) found |= Clean(row < present, codes[i]);
        StoreElements(stage, row, piece, codes[i]);
      }
    }
    return found;
  }

  DUNLIN_DEVICE void Finish(uint32_t barrier, int lane) const {
    at.block.FenceAsync();
    at.block.SyncWarp();
    if (lane == 0) at.block.Arrive(barrier);
  }

  DUNLIN_DEVICE void WidenValues(int32_t tile, int stage, int widener, int lane) const {
    if (at.Cut(tile)) {
      const int32_t present = at.task.rows.sequence.kv_len - tile * Shape::kTileKeys;
      uint32_t found = WidenRows<true>(at.values(stage), present, widener, lane);
      DUNLIN_UNROLL
      for (int mask = 1; mask < kWarpLanes; mask *= 2) found |= at.block.ShuffleXor(found, mask);
      if (lane == 0) at.block.StoreWord(at.flag(stage) + 4 * widener, found);
    } else {
      WidenRows<false>(at.values(stage), Shape::kTileKeys, widener, lane);
    }
  }

  // In the order in which they are loaded.
  DUNLIN_DEVICE void Widen(int widener, int lane, WgmmaFlashRings* rings) const {
    WgmmaFlashStage* keys = &rings->keys;
    WgmmaFlashStage* values = &rings->values;
    for (int32_t tile = at.task.tiles.first - 1; tile < at.task.tiles.end; ++tile) {
      if (tile + 1 < at.task.tiles.end) {
        at.block.Wait(at.key_codes_arrived(keys->index), keys->parity);
        WidenRows<false>(at.keys(keys->index), Shape::kTileKeys, widener, lane);
        Finish(at.keys_full(keys->index), lane);
        keys->Next(Shape::kStages);
      }
      if (tile < at.task.tiles.first) continue;
      at.block.Wait(at.value_codes_arrived(values->index), values->parity);
      WidenValues(tile, values->index, widener, lane);
      Finish(at.values_full(values->index), lane);
      values->Next(Shape::kStages);
    }
  }
};

}  // namespace dunlin::kernels::cuda
