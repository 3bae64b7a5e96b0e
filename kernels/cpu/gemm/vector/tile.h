// SPDX-License-Identifier: Apache-2.0
// The register tile of the vector variants' GEMM: kRows rows by kVectors vectors of columns.
//
// A step is four bytes of each activation row (one float, or a pair of BF16) times 64 bytes of dense weights a vector.
// Each sum is one chain of multiply-adds over ascending steps that starts at +0, in every tile shape; a sum that is
// spilled in memory between slices of K continues the same chain.
//
// Multiply::Add(sum, a, weights) multiplies a row's values; with Multiply::kFromMemory AddFrom(sum, at, weights) reads
// the row's four bytes itself, and panels are then decoded vector by vector. Panel (panels.h) decodes a panel's bytes.
#pragma once

#include <type_traits>

#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/context/gemm_kernels.h"
#include "kernels/cpu/gemm/packed_layout.h"
#include "kernels/cpu/gemm/vector/group_scales.h"
#include "kernels/cpu/gemm/vector/panels.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

inline constexpr int kPanelVectors = static_cast<int>(kPanelColumns / kLanes);

// How far a kernel that reads a panel once prefetches, into L1: what is in flight between memory and core, 42 GB/s
// times 170 ns. A smaller distance makes a core wait, a larger one gains nothing.
inline constexpr int64_t kPrefetchBytes = 8192;

// The register tile of a lanes type.
template <typename V>
struct TileShape {
  static constexpr bool kLarge = V::kNumVectors >= 32;
  // 8 x 3 sums, 3 weights and a broadcast of 32 vectors; 6 sums, a weight and a broadcast of 8. Rows are spread evenly
  // over the tiles of a block, so that a tile has at least kTileRowsMin.
  static constexpr int kTileRows = kLarge ? 8 : 6;
  static constexpr int kTileRowsMin = kLarge ? 4 : 3;
  static constexpr int kTileVectors = kLarge ? 3 : 1;
  static constexpr int kSmallMRows = kLarge ? 8 : 2;  // of tiles that decode whole panels
  // Lines of the next slice that a tile prefetches every four steps, at an even pace: on AVX2, where a panel takes
  // three tiles for its columns, six lines would come faster than memory delivers them, and 8 rows in BF16 take 1.3
  // times as long.
  static constexpr int kNextLines = 2 * kTileVectors;
  // Vectors of a unit that are decoded before its products, as far as registers reach.
  static constexpr int kDecodedVectors = kLarge ? kPanelVectors : 1;
};

template <typename V, int kRows, int kVectors>
struct Sums {
  typename V::Floats at[kRows][kVectors];
};

using AliasedFloat = float __attribute__((may_alias));

template <typename Multiply>
concept MultipliesFromMemory = requires {
  Multiply::kFromMemory;
};

// The activation rows of a tile, at their first step.
struct TileRows {
  const std::byte* first;
  size_t stride;  // bytes

  DUNLIN_INLINE const AliasedFloat& At(const TileRows& rows, int row, int64_t step) {
    return *reinterpret_cast<const AliasedFloat*>(rows.first + static_cast<size_t>(row) * rows.stride + step * 4);
  }
  // A row's four bytes of a step.
  template <typename V>
  DUNLIN_INLINE typename V::Factor Value(const TileRows& rows, int row, int64_t step) {
    return V::ToFactor(At(rows, row, step));
  }
};

// One unit of vectors [first, first + kCount), decoded whole before the first multiply.
template <typename V, typename Multiply, typename Panel, int kRows, int kVectors, int kCount>
DUNLIN_INLINE void MultiplyUnit(const TileRows& rows, int64_t step, const std::byte* at, int first,
                                Sums<V, kRows, kVectors>& sums) {
  typename V::Floats weights[kCount][Panel::kSteps];
#pragma GCC unroll 3
  for (int v = 0; v < kCount; ++v) Panel::Decode(at + v * Panel::kVectorBytes, weights[v]);
#pragma GCC unroll 16
  for (int s = 0; s < Panel::kSteps; ++s) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if constexpr (MultipliesFromMemory<Multiply>) {
        static_assert(kCount == 1);
        sums.at[r][first] = Multiply::AddFrom(sums.at[r][first], TileRows::At(rows, r, step + s), weights[0][s]);
      } else {
        const typename V::Factor a = TileRows::Value<V>(rows, r, step + s);
#pragma GCC unroll 3
        for (int v = 0; v < kCount; ++v) {
          typename V::Floats& sum = sums.at[r][first + v];
          sum = Multiply::Add(sum, a, weights[v][s]);
        }
      }
    }
  }
}

// The locality of a software prefetch: into L1, or into L2 for processors that prefer it (PrefersL2Prefetch).
enum Locality : int { kNoPrefetch = 0, kIntoL2 = 2, kIntoL1 = 3 };

// Where a tile of `rows` rows prefetches a panel that it reads once. With fewer than eight multiplies a line a tile
// runs at memory's pace. Processors that prefer L2 then follow lines of one vector best by their own prefetcher; lines
// of several vectors, which they follow less far ahead, go into L1. On a Zen 4, one thread: FP16 with 4 rows takes 0.80
// of the time of L1 alone.
template <typename Panel>
constexpr Locality PanelLocality(Locality preferred, int rows) {
  constexpr int64_t kLineVectors = Panel::kSteps * 64 / Panel::kVectorBytes;
  if (preferred == kIntoL1 || rows * kLineVectors >= 8) return preferred;
  return kLineVectors == 1 ? kNoPrefetch : kIntoL1;
}

// A panel that is read once, from memory: decoded in registers.
template <typename V, typename Multiply, typename Panel, Locality kLocality, int kRows>
DUNLIN_INLINE void AccumulatePanel(const TileRows& rows, const std::byte* panel, int64_t units,
                                   Sums<V, kRows, kPanelVectors>& sums) {
  constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  constexpr bool kFromMemory = MultipliesFromMemory<Multiply>;
  constexpr int kTogether = kFromMemory ? 1 : TileShape<V>::kDecodedVectors;
  for (int64_t unit = 0; unit < units; ++unit, panel += kUnitBytes) {
    if constexpr (kLocality != kNoPrefetch) {
#pragma GCC unroll 9
      for (int64_t line = 0; line < kUnitBytes; line += 64)
        __builtin_prefetch(panel + kPrefetchBytes + line, 0, kLocality);
    }
#pragma GCC unroll 3
    for (int v = 0; v < kPanelVectors; v += kTogether) {
      MultiplyUnit<V, Multiply, Panel, kRows, kPanelVectors, kTogether>(rows, unit * Panel::kSteps,
                                                                        panel + v * Panel::kVectorBytes, v, sums);
    }
  }
}

// A slice of K of a panel, at the tile's first vector.
struct PanelSlice {
  const std::byte* at;
  int64_t units;
  const std::byte* codes;  // a tile that widens the slice reads it from codes and writes it to widened
  std::byte* widened;
  const std::byte* next;  // bytes of the next slice, of which a tile prefetches TileShape's kNextLines every four steps
};

// One unit of a slice. Step by step: of all decoded vectors, those of one step alone fit the registers beside a whole
// tile's sums.
template <typename V, typename Multiply, typename Panel, int kRows, int kVectors>
DUNLIN_INLINE void MultiplySteps(const TileRows& rows, int64_t unit, const std::byte* at,
                                 Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 4
  for (int s = 0; s < Panel::kSteps; ++s) {
    typename V::Floats weights[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) weights[v] = Panel::DecodeStep(at + v * Panel::kVectorBytes, s);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Factor a = TileRows::Value<V>(rows, r, unit * Panel::kSteps + s);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums.at[r][v] = Multiply::Add(sums.at[r][v], a, weights[v]);
    }
  }
}

// `units` units of codes, widened to kUnits units of SlicePanel each.
template <typename V, typename SlicePanel, typename Widen>
DUNLIN_INLINE void WidenUnits(const std::byte* codes, int units, std::byte* to) {
#pragma GCC unroll 2
  for (int unit = 0; unit < units; ++unit) {
#pragma GCC unroll 3
    for (int v = 0; v < kPanelVectors; ++v) {
      typename V::Floats widened[Widen::kUnits];
      Widen::Decode(codes + (unit * kPanelVectors + v) * Widen::kVectorBytes, widened);
#pragma GCC unroll 8
      for (int u = 0; u < Widen::kUnits; ++u) {
        V::Store(to + ((unit * Widen::kUnits + u) * kPanelVectors + v) * SlicePanel::kVectorBytes, widened[u]);
      }
    }
  }
}

// Widen: how this tile widens the slice's codes, four steps before it multiplies them; InPlace where there are none or
// an earlier tile has widened them.
template <typename V, typename Multiply, typename Panel, typename Widen, Locality kLocality, bool kPrefetches,
          int kRows, int kVectors>
DUNLIN_INLINE void AccumulateSlice(const TileRows& rows, const PanelSlice& slice, Sums<V, kRows, kVectors>& sums) {
  constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  // Four steps at once, or those of a vector of codes: fewer instructions beside the multiplies, of which a shared core
  // is short.
  constexpr int kUnroll = Widen::kUnits * Panel::kSteps > 4 ? Widen::kUnits : 4 / Panel::kSteps;
  constexpr int kLines = TileShape<V>::kNextLines * kUnroll * Panel::kSteps / 4;
  const auto widen = [&](int64_t unit, int units) __attribute__((always_inline)) {
    if constexpr (Widen::kUnits > 0) {
      constexpr int64_t kCodeBytes = kPanelVectors * Widen::kVectorBytes;
      WidenUnits<V, Panel, Widen>(slice.codes + unit / Widen::kUnits * kCodeBytes, units / Widen::kUnits,
                                  slice.widened + unit * kUnitBytes);
    }
  };
  const auto multiply = [&](int64_t unit) __attribute__((always_inline)) {
    MultiplySteps<V, Multiply, Panel, kRows, kVectors>(rows, unit, slice.at + unit * kUnitBytes, sums);
  };
  const int64_t whole = slice.units / kUnroll * kUnroll;
  const std::byte* next = slice.next;
  if (whole > 0) widen(0, kUnroll);
  for (int64_t unit = 0; unit < whole; unit += kUnroll) {
    if (unit + kUnroll < whole) widen(unit + kUnroll, kUnroll);
#pragma GCC unroll 8
    for (int u = 0; u < kUnroll; ++u) {
      const int end = kPrefetches ? (u + 1) * kLines / kUnroll : 0;
#pragma GCC unroll 6
      for (int line = u * kLines / kUnroll; line < end; ++line) __builtin_prefetch(next + line * 64, 0, kLocality);
      multiply(unit + u);
    }
    next += kLines * 64;
  }
  for (int64_t unit = whole; unit < slice.units; ++unit) {
    if (Widen::kUnits > 0 && (unit - whole) % (Widen::kUnits > 0 ? Widen::kUnits : 1) == 0) widen(unit, Widen::kUnits);
    multiply(unit);
  }
}

template <typename V, int kRows, int kVectors>
DUNLIN_INLINE void Clear(Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 6
    for (int v = 0; v < kVectors; ++v) sums.at[r][v] = V::Zero();
  }
}

// totals += sums * (activation scale * weight scale), for scale `index` of each row. weight_scale: of that scale, at
// the first column.
template <typename V, int kRows, int kVectors>
DUNLIN_INLINE void AddScaled(const GemmBlock& block, int row, int64_t index, const float* weight_scale,
                             const Sums<V, kRows, kVectors>& sums, Sums<V, kRows, kVectors>& totals) {
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const typename V::Floats by_column = V::Load(weight_scale + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float by_row = block.activation_scale[(row + r) * block.scales_per_row + index];
      const typename V::Floats scale = V::Mul(V::Broadcast(by_row), by_column);
      totals.at[r][v] = V::MulAdd(sums.at[r][v], scale, totals.at[r][v]);
    }
  }
}

// Sums of a tile in scratch: [kRows][kVectors][16] floats.
template <typename V, int kRows, int kVectors>
DUNLIN_INLINE void Load(const float* spilled, Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums.at[r][v] = V::Load(spilled + (r * kVectors + v) * kLanes);
  }
}
template <typename V, int kRows, int kVectors>
DUNLIN_INLINE void Spill(const Sums<V, kRows, kVectors>& sums, float* spilled) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) V::Store(spilled + (r * kVectors + v) * kLanes, sums.at[r][v]);
  }
}

// Totals of a tile in memory: [rows][kVectors][16] floats.
template <typename V, int kVectors>
struct SpilledTotals {
  float* at;
  bool empty;  // not written yet

  DUNLIN_INLINE typename V::Floats Get(const SpilledTotals& totals, int r, int v) {
    return totals.empty ? V::Zero() : V::Load(totals.at + (r * kVectors + v) * kLanes);
  }
  DUNLIN_INLINE void Set(SpilledTotals& totals, int r, int v, typename V::Floats total) {
    V::Store(totals.at + (r * kVectors + v) * kLanes, total);
  }
};

// Totals of a tile of few rows, in registers.
template <typename V, int kRows, int kVectors>
struct RegisterTotals {
  Sums<V, kRows, kVectors> sums;
  bool empty;  // as of SpilledTotals; not read

  DUNLIN_INLINE typename V::Floats Get(const RegisterTotals& totals, int r, int v) { return totals.sums.at[r][v]; }
  DUNLIN_INLINE void Set(RegisterTotals& totals, int r, int v, typename V::Floats total) {
    totals.sums.at[r][v] = total;
  }
};

// What a block has for group `group` of a row: an InputGroup, or a float, the sum of its inputs.
template <typename Precision>
DUNLIN_INLINE const auto& GroupOfRow(const GemmBlock& block, int row, int64_t group) {
  using Group = std::conditional_t<Precision::kIntegers, InputGroup, float>;
  const std::byte* groups =
      block.activation + static_cast<size_t>(row) * block.activation_stride + block.group_sum_offset;
  return reinterpret_cast<const Group*>(groups)[group];
}

// What the sums of a group start with: +0, or the integers that take off what was added to the codes.
template <typename V, typename Precision, int kRows, int kVectors>
DUNLIN_INLINE void StartGroup(const GemmBlock& block, int row, int64_t group, Sums<V, kRows, kVectors>& sums) {
  Clear(sums);
  if constexpr (Precision::kIntegers) {
    if constexpr (Precision::Multiply::kStarts) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const typename V::Ints start = V::BroadcastInts(GroupOfRow<Precision>(block, row + r, group).start);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sums.at[r][v] = V::AsFloats(start);
      }
    }
  }
}

// For group `group` of each row: totals += (sums - zero point * sum of the row's group) * scale, or
// totals = totals + sums * scale - minimum * sum of the row's group. Integer sums are multiplied with the scale of the
// row's group first. scales: of the panel, from `column` of it on.
template <typename V, typename Precision, typename Totals, int kRows, int kVectors>
DUNLIN_INLINE void AddGroup(const GemmBlock& block, int row, int64_t group, const std::byte* scales, int64_t column,
                            const Sums<V, kRows, kVectors>& sums, Totals& totals) {
  using Scales = typename Precision::Scales;
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const ScaleAndOffset<V> read = Scales::Read(scales, group, column + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto& inputs = GroupOfRow<Precision>(block, row + r, group);
      typename V::Floats sum = sums.at[r][v];
      float of_row = 0.0F;
      if constexpr (Precision::kIntegers) {
        sum = V::Mul(V::ToFloats(Precision::Multiply::Integers(sum, inputs.start)), V::Broadcast(inputs.scale));
        of_row = inputs.sum;
      } else {
        of_row = inputs;
      }
      if constexpr (Scales::kOffset == GroupOffset::kZeroPoint) {
        sum = V::NegMulAdd(read.offset, V::Broadcast(of_row), sum);
      }
      typename V::Floats total = V::MulAdd(sum, read.scale, Totals::Get(totals, r, v));
      if constexpr (Scales::kOffset == GroupOffset::kMinimum) {
        total = V::NegMulAdd(read.offset, V::Broadcast(of_row), total);
      }
      Totals::Set(totals, r, v, total);
    }
  }
  totals.empty = false;
}

// Prefetches the output lines that Store will write, and the columns' scales and biases, at the start of a tile:
// waiting for them at its end would delay the next tile too.
template <int kRows, int kVectors>
DUNLIN_INLINE void PrefetchOutput(const GemmBlock& block, int row, int64_t column) {
  const float* out = block.out + row * block.out_stride + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(out + r * block.out_stride + v * kLanes, 1);
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    if (block.weight_scale != nullptr && block.scales_per_row == 1)
      __builtin_prefetch(block.weight_scale + column + v * kLanes);
    if (block.bias != nullptr) __builtin_prefetch(block.bias + column + v * kLanes);
  }
}

// out = sums (scaled) + bias + residual, for the columns that exist.
template <typename V, int kRows, int kVectors>
DUNLIN_INLINE void Store(const GemmBlock& block, int row, int64_t first_column, const Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) {
    const int64_t column = first_column + v * kLanes;
    if (column >= block.columns) return;
    const typename V::Mask mask = V::FirstLanes(block.columns - column);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int64_t offset = (row + r) * block.out_stride + column;
      typename V::Floats value = sums.at[r][v];
      if (block.weight_scale != nullptr && block.scales_per_row == 1) {
        value = V::Mul(value, V::Broadcast(block.activation_scale[row + r]));
        value = V::Mul(value, V::LoadMasked(block.weight_scale + column, mask));
      }
      if (block.bias != nullptr) value = V::Add(value, V::LoadMasked(block.bias + column, mask));
      if (block.residual != nullptr) value = V::Add(value, V::LoadMasked(block.residual + offset, mask));
      V::StoreMasked(block.out + offset, mask, value);
    }
  }
}

}  // namespace dunlin::kernels::cpu::simd
