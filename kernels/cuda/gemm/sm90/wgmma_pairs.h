// SPDX-License-Identifier: Apache-2.0
// The stores of a wgmma tile with paired outputs (PairedOutputs). Its weights come in eights, the first of each pair
// and then the second, so that a thread has both sums: of 16 outputs of a tile, 0 to 7 are the first of eight pairs,
// and 8 to 15 the second. What is stored has the bits of the product's FP32 rows through activate or
// rotate_and_store_kv. Written as wgmma_store.h: a row's places and a pair's are computed once each.
#pragma once

#include "kernels/cuda/gemm/sm90/wgmma_store.h"
#include "kernels/cuda/ops/kv_store.h"

namespace dunlin::kernels::cuda {

// Where a row's pairs go.
template <typename Tile, GemmOutputs kUse>
struct PairRow {
  float in_scale;
  unsigned char* gates;      // of kGated
  const float* cos_sin;      // of kHeads, or null
  float* queries;            // of kHeads
  unsigned char* first_key;  // of kHeads: the row of KV head 0 in its page, or null

  static DUNLIN_DEVICE PairRow Of(const WgmmaOutputs<Tile>& outputs, int64_t row) {
    const WgmmaCall& call = outputs.call;
    PairRow of{outputs.InScale(row), nullptr, nullptr, nullptr, nullptr};
    if constexpr (kUse == GemmOutputs::kGated) {
      of.gates = call.store.next + row * call.store.next_row_bytes;
      return of;
    }
    const RotateAndStoreKvParams& heads = call.paired.heads;
    of.queries = call.store.out + row * call.store.out_stride;
    if (heads.cos_sin != nullptr) of.cos_sin = heads.cos_sin + row * heads.rotary_dim;
    if (heads.layout.shape.num_kv_heads > 0) {
      of.first_key = static_cast<unsigned char*>(heads.kv_pool) +
                     KeyBlockOffset(heads.layout, heads.token_page[row], heads.layer, 0) +
                     KvElement(2 * call.paired.half, heads.token_slot[row], 0) * 2;
    }
    return of;
  }
};

// kCount neighbouring pairs of every row, 1 or 2: with 2, an even pair and the next. A pair is within a head, and so
// are neighbours.
template <typename Tile, GemmOutputs kUse, int kCount>
struct PairPlace {
  static_assert(kCount == 1 || kCount == 2);
  const WgmmaOutputs<Tile>& outputs;
  int32_t pair;       // of the product
  int32_t dim;        // of a head: of the first of the pair
  int32_t kv_head;    // negative: of a query
  int64_t key_bytes;  // from KV head 0's row to the row of this key or value
  bool rotated;
  float scales[2][kCount];
  float biases[2][kCount];

  static DUNLIN_DEVICE PairPlace Of(const WgmmaOutputs<Tile>& outputs, int32_t pair) {
    const PairedOutputs& paired = outputs.call.paired;
    PairPlace of{outputs, pair, 0, 0, 0, false, {}, {}};
    const int32_t span = pair >> paired.half_shift;
    // The output of the first of the pair.
    const int64_t feature = pair + int64_t{span} * paired.half;
    DUNLIN_UNROLL
    for (int i = 0; i < 2 * kCount; ++i) {
      const int64_t output = feature + i / kCount * int64_t{paired.half} + i % kCount;
      of.scales[i / kCount][i % kCount] = outputs.WeightScale(output);
      of.biases[i / kCount][i % kCount] = outputs.Bias(output);
    }
    if constexpr (kUse == GemmOutputs::kHeads) of.FindHead(span);
    return of;
  }
  DUNLIN_DEVICE void FindHead(int32_t span) {
    const PairedOutputs& paired = outputs.call.paired;
    const KvLayout& layout = paired.heads.layout;
    dim = pair & (paired.half - 1);
    kv_head = span - paired.heads.num_heads;
    const bool is_value = kv_head >= layout.shape.num_kv_heads;
    rotated = !is_value && paired.heads.cos_sin != nullptr;
    key_bytes = (is_value ? kv_head - layout.shape.num_kv_heads : kv_head) * static_cast<int64_t>(layout.head_bytes) +
                (is_value ? static_cast<int64_t>(layout.key_block_bytes) : 0);
  }

  // first, second: the sums of a row.
  DUNLIN_DEVICE void Store(const PairRow<Tile, kUse>& row, const float (&first)[kCount],
                           const float (&second)[kCount]) const {
    float values[2][kCount];
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) {
      values[0][i] = outputs.Scaled(first[i], row.in_scale, scales[0][i], biases[0][i]);
      values[1][i] = outputs.Scaled(second[i], row.in_scale, scales[1][i], biases[1][i]);
    }
    if constexpr (kUse == GemmOutputs::kGated) {
      StoreGates(row, values);
    } else {
      StoreHeads(row, values);
    }
  }

  DUNLIN_DEVICE void StoreGates(const PairRow<Tile, kUse>& row, const float (&values)[2][kCount]) const {
    const ActivationKind kind = outputs.call.paired.activation;
    float gates[kCount];
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) {
      gates[i] = kind == ActivationKind::kSilu ? ApplyActivation(ActivationKind::kSilu, values[0][i])
                                               : ApplyActivation(ActivationKind::kGeluTanh, values[0][i]);
      gates[i] *= values[1][i];
    }
    StoreRounded(outputs.call.fp16, row.gates + int64_t{pair} * 2, gates);
  }

  DUNLIN_DEVICE void StoreHeads(const PairRow<Tile, kUse>& row, float (&values)[2][kCount]) const {
    const int32_t half = outputs.call.paired.half;
    if (rotated) {
      const float* cos_sin = row.cos_sin + dim;
      DUNLIN_UNROLL
      for (int i = 0; i < kCount; ++i) RotatePair(cos_sin[i], cos_sin[half + i], &values[0][i], &values[1][i]);
    }
    if (kv_head < 0) {
      const int32_t span = pair >> outputs.call.paired.half_shift;
      float* to = row.queries + pair + int64_t{span} * half;
      StoreFloats(to, values[0]);
      StoreFloats(to + half, values[1]);
      return;
    }
    unsigned char* to = row.first_key + key_bytes + dim * 2;
    const bool fp16 = outputs.call.paired.heads.layout.dtype == DType::kF16;
    StoreRounded(fp16, to, values[0]);
    StoreRounded(fp16, to + int64_t{half} * 2, values[1]);
  }

  DUNLIN_DEVICE void StoreFloats(float* to, const float (&values)[kCount]) const {
    if constexpr (kCount == 2) {
      if (outputs.call.pairs) {
        *reinterpret_cast<Float2*>(to) = {{values[0], values[1]}};
        return;
      }
    }
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) to[i] = values[i];
  }
  static DUNLIN_DEVICE void StoreRounded(bool fp16, unsigned char* to, const float (&values)[kCount]) {
    if constexpr (kCount == 2) {
      *reinterpret_cast<uint32_t*>(to) = RoundedPair(fp16, values[0], values[1]);
    } else {
      *reinterpret_cast<uint16_t*>(to) = Rounded(fp16, values[0]);
    }
  }
};

// The sums of a thread of a tile with inputs on the M side: two rows; a pair's second is in the next eight columns.
template <typename Tile, GemmOutputs kUse>
DUNLIN_DEVICE void StorePairs(const WgmmaCall& call, const WgmmaPlace& place, int warpgroup, int thread,
                              const float (&sums)[Tile::kSums]) {
  const auto outputs = WgmmaOutputs<Tile>::Of(call, place.group);
  bool stored[2];
  PairRow<Tile, kUse> rows[2];
  DUNLIN_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int64_t row = place.row + warpgroup * 64 + WgmmaSlot::Row(thread, 2 * half);
    stored[half] = row < place.rows_end;
    rows[half] = PairRow<Tile, kUse>::Of(outputs, stored[half] ? row : place.row);
  }
  const auto eights = static_cast<int32_t>((call.store.columns - place.column) / kPairedOutputs);
  DUNLIN_UNROLL
  for (int eight = 0; eight < Tile::kSums / 8; ++eight) {
    if (eight >= eights) continue;
    const int32_t pair = place.column / 2 + eight * 8 + WgmmaSlot::Column(thread, 0);
    const auto at = PairPlace<Tile, kUse, 2>::Of(outputs, pair);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int i = 8 * eight + 2 * half;
      if (stored[half]) at.Store(rows[half], {sums[i], sums[i + 1]}, {sums[i + 4], sums[i + 5]});
    }
  }
}

// With weights on the M side: one pair, whose second is eight rows of the product further, of all the rows.
template <typename Tile, GemmOutputs kUse>
DUNLIN_DEVICE void StoreSwappedPairs(const WgmmaCall& call, const WgmmaPlace& place, int thread,
                                     const float (&sums)[Tile::kSums]) {
  const auto outputs = WgmmaOutputs<Tile>::Of(call, place.group);
  const int output = WgmmaSlot::Row(thread, 0);
  const int32_t pair = place.column / 2 + output / kPairedOutputs * 8 + output % 8;
  if (output >= Tile::kColumns || 2 * int64_t{pair} >= call.store.columns) return;
  const auto at = PairPlace<Tile, kUse, 1>::Of(outputs, pair);
  const int64_t first_row = place.row + WgmmaSlot::Column(thread, 0);
  const auto rows = static_cast<int32_t>(place.rows_end - first_row);
  DUNLIN_UNROLL
  for (int i = 0; i < Tile::kSums; ++i) {
    const int row = WgmmaSlot::Column(0, i);
    if (i / 2 % 2 != 0 || row >= rows) continue;
    at.Store(PairRow<Tile, kUse>::Of(outputs, first_row + row), {sums[i]}, {sums[i + 2]});
  }
}

}  // namespace dunlin::kernels::cuda
