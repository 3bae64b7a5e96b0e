// SPDX-License-Identifier: Apache-2.0
// The stores of a wgmma tile. Registers have no index at run time, so each sum has a copy of this code, which is most
// of a kernel's: what a row, an output or the call settles is computed before the sums, and a scale, bias or residual
// that the call lacks is a neutral number, not a branch for each of them. Of every sum the order is that of StoreSums.
#pragma once

#include "kernels/cuda/block/tensor_core.h"
#include "kernels/cuda/gemm/sm90/wgmma_call.h"
#include "kernels/cuda/sm90/descriptor.h"

namespace dunlin::kernels::cuda {

inline constexpr float kAddsNothing = -0.0F;  // x + -0 is x for every x, zeros included

// What belongs to the outputs of a tile's group.
template <typename Tile>
struct WgmmaOutputs {
  const WgmmaCall& call;
  const float* weight_scales;  // where Tile::kRowScales
  const float* bias;           // or null
  int64_t skip;                // floats that rows of `out` and residuals lie further

  static DUNLIN_DEVICE WgmmaOutputs Of(const WgmmaCall& call, int32_t group) {
    const TileStore& store = call.store;
    if constexpr (Tile::kGrouped) {
      return {call, Tile::kRowScales ? store.weight_scales + group * call.groups.scale_stride : nullptr,
              store.bias == nullptr ? nullptr : store.bias + group * call.groups.bias_stride,
              group * call.groups.out_skip};
    } else {
      return {call, store.weight_scales, store.bias, 0};
    }
  }

  DUNLIN_DEVICE float InScale(int64_t row) const { return Tile::kRowScales ? call.store.in_scales[row] : 1.0F; }
  DUNLIN_DEVICE float WeightScale(int64_t column) const { return Tile::kRowScales ? weight_scales[column] : 1.0F; }
  DUNLIN_DEVICE float Bias(int64_t column) const { return bias == nullptr ? kAddsNothing : bias[column]; }
  static DUNLIN_DEVICE float Scaled(float sum, float in_scale, float weight_scale, float bias) {
    if constexpr (Tile::kRowScales) sum *= in_scale * weight_scale;
    return sum + bias;
  }
};

DUNLIN_DEVICE uint16_t Rounded(bool fp16, float value) {
  return fp16 ? ToFp16(value) : ToBf16(value);
}
DUNLIN_DEVICE uint32_t RoundedPair(bool fp16, float low, float high) {
  return fp16 ? PackPair<Fp16Format>(low, high) : PackPair<Bf16Format>(low, high);
}

// The first `count` of two neighbouring floats. kWide: both or neither, in one access of 8 bytes.
template <bool kWide>
DUNLIN_DEVICE void LoadTwo(const float* from, int32_t count, Float2* to) {
  if constexpr (kWide) {
    if (count > 0) *to = *reinterpret_cast<const Float2*>(from);
  } else {
    if (count > 0) to->values[0] = from[0];
    if (count > 1) to->values[1] = from[1];
  }
}
template <bool kWide>
DUNLIN_DEVICE void StoreTwo(const Float2& from, int32_t count, float* to) {
  if constexpr (kWide) {
    if (count > 0) *reinterpret_cast<Float2*>(to) = from;
  } else {
    if (count > 0) to[0] = from.values[0];
    if (count > 1) to[1] = from.values[1];
  }
}

// Of a tile with inputs on the M side: the sums of a thread in one of its two rows, `half`, are pairs of neighbouring
// columns, eight columns from one pair to the next. kActivated: through the activation; columns are a multiple of 16
// then, and there are no scales.
template <typename Tile, bool kActivated, bool kWide>
DUNLIN_DEVICE void StoreRow(const WgmmaOutputs<Tile>& outputs, int64_t row, int64_t column, int half,
                            const float (&sums)[Tile::kSums]) {
  constexpr int kPairs = 4;  // whose biases and residuals are fetched together
  const TileStore& store = outputs.call.store;
  const auto left = static_cast<int32_t>(store.columns - column);
  const int64_t at = row * store.out_stride + outputs.skip + column;
  const float in_scale = outputs.InScale(row);
  unsigned char* next = kActivated ? store.next + row * store.next_row_bytes + column * 2 : nullptr;
  DUNLIN_UNROLL
  for (int first = 0; first < Tile::kSums / 4; first += kPairs) {
    Float2 scales[kPairs];
    Float2 biases[kPairs];
    Float2 residuals[kPairs];
    DUNLIN_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      scales[i] = {{1.0F, 1.0F}};
      biases[i] = residuals[i] = {{kAddsNothing, kAddsNothing}};
      if constexpr (Tile::kRowScales) {
        LoadTwo<false>(outputs.weight_scales + column + 8 * (first + i), left - 8 * (first + i), &scales[i]);
      }
    }
    if (outputs.bias != nullptr) {
      DUNLIN_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        LoadTwo<false>(outputs.bias + column + 8 * (first + i), left - 8 * (first + i), &biases[i]);
      }
    }
    if (!kActivated && store.residual != nullptr) {
      DUNLIN_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        LoadTwo<kWide>(store.residual + at + 8 * (first + i), left - 8 * (first + i), &residuals[i]);
      }
    }
    DUNLIN_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      Float2 pair;
      DUNLIN_UNROLL
      for (int k = 0; k < 2; ++k) {
        pair.values[k] =
            outputs.Scaled(sums[4 * (first + i) + 2 * half + k], in_scale, scales[i].values[k], biases[i].values[k]);
      }
      if constexpr (kActivated) {
        if (left <= 8 * (first + i)) continue;
        *reinterpret_cast<uint32_t*>(next + 16 * (first + i)) =
            RoundedPair(outputs.call.fp16, GeluTanh(pair.values[0]), GeluTanh(pair.values[1]));
      } else {
        DUNLIN_UNROLL
        for (int k = 0; k < 2; ++k) pair.values[k] += residuals[i].values[k];
        StoreTwo<kWide>(pair, left - 8 * (first + i), store.out + at + 8 * (first + i));
      }
    }
  }
}

template <typename Tile, bool kActivated>
DUNLIN_DEVICE void StoreRows(const WgmmaCall& call, const WgmmaPlace& place, int warpgroup, int thread,
                             const float (&sums)[Tile::kSums]) {
  const auto outputs = WgmmaOutputs<Tile>::Of(call, place.group);
  const int64_t column = place.column + WgmmaSlot::Column(thread, 0);
  const bool whole = call.store.columns % 2 == 0 || place.column + Tile::kColumns <= call.store.columns;
  DUNLIN_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int64_t row = place.row + warpgroup * 64 + WgmmaSlot::Row(thread, 2 * half);
    if (row >= place.rows_end) continue;
    if (kActivated || (call.pairs && whole)) {
      StoreRow<Tile, kActivated, true>(outputs, row, column, half, sums);
    } else if constexpr (!kActivated) {
      StoreRow<Tile, false, false>(outputs, row, column, half, sums);
    }
  }
}

// Of a tile with weights on the M side: the sums of a thread are of two outputs, eight apart, in pairs of neighbouring
// rows. Eight lanes write eight neighbouring outputs of a row.
template <typename Tile, bool kActivated>
DUNLIN_DEVICE void StoreSwappedRows(const WgmmaCall& call, const WgmmaPlace& place, int thread,
                                    const float (&sums)[Tile::kSums]) {
  const TileStore& store = call.store;
  const auto outputs = WgmmaOutputs<Tile>::Of(call, place.group);
  const int64_t column = place.column + WgmmaSlot::Row(thread, 0);
  bool stored[2];
  float scales[2];
  float biases[2];
  DUNLIN_UNROLL
  for (int half = 0; half < 2; ++half) {
    stored[half] = WgmmaSlot::Row(thread, 2 * half) < Tile::kColumns && column + 8 * half < store.columns;
    scales[half] = stored[half] ? outputs.WeightScale(column + 8 * half) : 1.0F;
    biases[half] = stored[half] ? outputs.Bias(column + 8 * half) : kAddsNothing;
  }
  const int64_t first_row = place.row + WgmmaSlot::Column(thread, 0);
  const auto rows = static_cast<int32_t>(place.rows_end - first_row);
  DUNLIN_UNROLL
  for (int i = 0; i < Tile::kSums; i += 4) {
    float residuals[2][2] = {{kAddsNothing, kAddsNothing}, {kAddsNothing, kAddsNothing}};
    float in_scales[2] = {1.0F, 1.0F};
    DUNLIN_UNROLL
    for (int k = 0; k < 2; ++k) {
      const int64_t row = first_row + WgmmaSlot::Column(0, i + k);
      if (WgmmaSlot::Column(0, i + k) >= rows) continue;
      in_scales[k] = outputs.InScale(row);
      if (kActivated || store.residual == nullptr) continue;
      const float* residual = store.residual + row * store.out_stride + outputs.skip + column;
      DUNLIN_UNROLL
      for (int half = 0; half < 2; ++half) {
        if (stored[half]) residuals[half][k] = residual[8 * half];
      }
    }
    DUNLIN_UNROLL
    for (int k = 0; k < 2; ++k) {
      const int64_t row = first_row + WgmmaSlot::Column(0, i + k);
      if (WgmmaSlot::Column(0, i + k) >= rows) continue;
      DUNLIN_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float value = outputs.Scaled(sums[i + 2 * half + k], in_scales[k], scales[half], biases[half]);
        if (!stored[half]) continue;
        if constexpr (kActivated) {
          unsigned char* next = store.next + row * store.next_row_bytes + (column + 8 * half) * 2;
          *reinterpret_cast<uint16_t*>(next) = Rounded(call.fp16, GeluTanh(value));
        } else {
          store.out[row * store.out_stride + outputs.skip + column + 8 * half] = value + residuals[half][k];
        }
      }
    }
  }
}

}  // namespace dunlin::kernels::cuda
