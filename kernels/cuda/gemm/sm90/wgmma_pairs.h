// SPDX-License-Identifier: Apache-2.0
// The stores of a wgmma tile with paired outputs (PairedOutputs). Its weights come in eights, the first of each pair
// and then the second, so that a thread has both sums: of 16 outputs of a tile, 0 to 7 are the first of eight pairs,
// and 8 to 15 the second. What is stored has the bits of the product's FP32 rows through activate or
// rotate_and_store_kv.
#pragma once

#include "kernels/cuda/block/tensor_core.h"
#include "kernels/cuda/gemm/sm90/wgmma_call.h"
#include "kernels/cuda/ops/kv_store.h"
#include "kernels/cuda/sm90/descriptor.h"

namespace dunlin::kernels::cuda {

// kCount neighbouring pairs of a row, 1 or 2: with 2, of an even pair and the next.
template <typename Tile, int kCount>
struct PairStore {
  using Format = typename Tile::Format;
  static_assert(kCount == 1 || kCount == 2);
  const WgmmaCall& call;
  int32_t group;  // of GroupedTile
  int64_t row;
  int32_t pair;  // of the product
  float first[kCount];
  float second[kCount];

  DUNLIN_DEVICE int32_t span() const { return pair >> call.paired.half_shift; }
  // The output of the first of the pair.
  DUNLIN_DEVICE int64_t feature() const { return pair + int64_t{span()} * call.paired.half; }

  DUNLIN_DEVICE void Run() {
    const int64_t at = feature();
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) {
      first[i] = ScaledSum<Tile>(call, group, row, at + i, first[i]);
      second[i] = ScaledSum<Tile>(call, group, row, at + call.paired.half + i, second[i]);
    }
    if constexpr (Format::kDType != DType::kF8E4M3) {
      if (call.paired.use == GemmOutputs::kGated) return StoreGated();
    }
    StoreHeads();
  }

  DUNLIN_DEVICE void StoreGated() const {
    uint16_t bits[kCount];
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const float gate = call.paired.activation == ActivationKind::kSilu
                             ? ApplyActivation(ActivationKind::kSilu, first[i])
                             : ApplyActivation(ActivationKind::kGeluTanh, first[i]);
      bits[i] = Format::FromFloat(gate * second[i]);
    }
    StoreBits(call.store.next + row * call.store.next_row_bytes + int64_t{pair} * 2, bits);
  }

  // A pair is within a head, and so are neighbours.
  DUNLIN_DEVICE void StoreHeads() {
    const RotateAndStoreKvParams& heads = call.paired.heads;
    const int32_t half = call.paired.half;
    const int32_t d = pair & (half - 1);
    const int32_t kv_head = span() - heads.num_heads;
    const bool is_value = kv_head >= heads.layout.shape.num_kv_heads;
    if (!is_value && heads.cos_sin != nullptr) {
      const float* cos_sin = heads.cos_sin + row * heads.rotary_dim + d;
      DUNLIN_UNROLL
      for (int i = 0; i < kCount; ++i) RotatePair(cos_sin[i], cos_sin[half + i], &first[i], &second[i]);
    }
    if (kv_head < 0) {
      StoreFloats(call.store.out + row * call.store.out_stride + feature(), first);
      StoreFloats(call.store.out + row * call.store.out_stride + feature() + half, second);
      return;
    }
    const int32_t page = heads.token_page[row];
    const int64_t offset =
        is_value ? ValueBlockOffset(heads.layout, page, heads.layer, kv_head - heads.layout.shape.num_kv_heads)
                 : KeyBlockOffset(heads.layout, page, heads.layer, kv_head);
    unsigned char* to =
        static_cast<unsigned char*>(heads.kv_pool) + offset + KvElement(2 * half, heads.token_slot[row], d) * 2;
    StoreRounded(to, first);
    StoreRounded(to + int64_t{half} * 2, second);
  }

  DUNLIN_DEVICE void StoreFloats(float* to, const float (&values)[kCount]) const {
    if constexpr (kCount == 2) {
      if (call.pairs) {
        *reinterpret_cast<Float2*>(to) = {{values[0], values[1]}};
        return;
      }
    }
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) to[i] = values[i];
  }
  DUNLIN_DEVICE void StoreRounded(unsigned char* to, const float (&values)[kCount]) const {
    uint16_t bits[kCount];
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) {
      bits[i] = call.paired.heads.layout.dtype == DType::kBF16 ? ToBf16(values[i]) : ToFp16(values[i]);
    }
    StoreBits(to, bits);
  }
  DUNLIN_DEVICE void StoreBits(unsigned char* to, const uint16_t (&bits)[kCount]) const {
    if constexpr (kCount == 2) {
      *reinterpret_cast<uint32_t*>(to) = bits[0] | static_cast<uint32_t>(bits[1]) << 16;
    } else {
      *reinterpret_cast<uint16_t*>(to) = bits[0];
    }
  }
};

// The sums of a thread of a tile with inputs on the M side: a pair's second is in the next eight columns.
template <typename Tile>
DUNLIN_DEVICE void StorePairs(const WgmmaCall& call, const WgmmaPlace& place, int warpgroup, int thread,
                              const float (&sums)[Tile::kSums]) {
  DUNLIN_UNROLL
  for (int i = 0; i < Tile::kSums; i += 2) {
    if (i / 4 % 2 != 0) continue;
    const int64_t row = place.row + warpgroup * 64 + WgmmaSlot::Row(thread, i);
    const int column = WgmmaSlot::Column(thread, i);
    const int32_t pair = place.column / 2 + column / kPairedOutputs * 8 + column % 8;
    if (row >= place.rows_end || 2 * int64_t{pair} >= call.store.columns) continue;
    PairStore<Tile, 2>{call, place.group, row, pair, {sums[i], sums[i + 1]}, {sums[i + 4], sums[i + 5]}}.Run();
  }
}

// With weights on the M side: a pair's second is eight rows of the product further.
template <typename Tile>
DUNLIN_DEVICE void StoreSwappedPairs(const WgmmaCall& call, const WgmmaPlace& place, int thread,
                                     const float (&sums)[Tile::kSums]) {
  DUNLIN_UNROLL
  for (int i = 0; i < Tile::kSums; ++i) {
    if (i / 2 % 2 != 0) continue;
    const int output = WgmmaSlot::Row(thread, i);
    const int64_t row = place.row + WgmmaSlot::Column(thread, i);
    const int32_t pair = place.column / 2 + output / kPairedOutputs * 8 + output % 8;
    if (output >= Tile::kColumns || row >= place.rows_end || 2 * int64_t{pair} >= call.store.columns) continue;
    PairStore<Tile, 1>{call, place.group, row, pair, {sums[i]}, {sums[i + 2]}}.Run();
  }
}

}  // namespace dunlin::kernels::cuda
