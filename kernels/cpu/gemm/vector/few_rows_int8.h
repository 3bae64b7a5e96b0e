// SPDX-License-Identifier: Apache-2.0
// A few rows with inputs of 8 bits where the register tile is small (AVX2, NEON). Codes of a group of a panel become
// bytes once, and its scales floats: the first tile of rows decodes in registers, multiplies, and stores both in the L1
// cache for the other tiles. A tile is up to four rows by a vector of columns: of 16 registers of 8 lanes 8 sums, a
// unit's weights, a value and its products. Totals lie in scratch from group to group.
//
// The sums of a group are integers, and totals add them up by AddGroup's chain (tile.h): the bits are those of every
// tile. Instantiations: tiles of two to four rows, each decoding and reading.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/vector/tile.h"

namespace dunlin::kernels::cpu::simd {

// Products that cost two operations and more: decoding beside them pays.
template <typename Multiply>
concept MultipliesPairs = requires {
  Multiply::kAddsTwo;
};

template <typename V, typename Precision>
struct FewRowsInt8Gemm {
  using Multiply = typename Precision::Multiply;
  using Panel = typename Precision::Panel;
  using Scales = typename Precision::Scales;
  static constexpr int64_t kMaxRows = 32;
  static constexpr int kTileRows = 4;
  static constexpr int kTileRowsMin = 2;
  static constexpr int64_t kGroupSteps = Scales::kGroup / Precision::kStepDepth;
  static constexpr int64_t kGroupUnits = kGroupSteps / Panel::kSteps;
  static constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  static constexpr GroupOffset kOffset = Scales::kOffset;

  // A group of a panel, ready to multiply.
  struct Group {
    alignas(64) std::byte bytes[kPanelVectors][kGroupSteps * 64];
    alignas(64) float scales[kPanelColumns];
    alignas(64) float offsets[kPanelColumns];
  };

  // A group of a panel as it lies in memory.
  struct Codes {
    const std::byte* at;
    const std::byte* scales;  // of the panel
    int64_t group;
    int64_t steps;
  };

  struct TileInputs {
    TileRows rows;            // at the group's first step
    const std::byte* inputs;  // the first row's InputGroup
    float* totals;            // [kRows][48]
  };

  DUNLIN_INLINE void Prefetch(const Codes& codes, int v) {
#pragma GCC unroll 8
    for (int64_t unit = 0; unit < kGroupUnits; ++unit) {
#pragma GCC unroll 3
      for (int64_t line = 0; line < Panel::kVectorBytes; line += 64) {
        const int64_t at = unit * kUnitBytes + v * Panel::kVectorBytes + line;
        __builtin_prefetch(codes.at + kPrefetchBytes + at, 0, kIntoL2);
      }
    }
    constexpr int64_t kAhead = kPrefetchBytes / (kGroupUnits * kUnitBytes) * Scales::kGroupBytes;
    constexpr int64_t kShare = Scales::kGroupBytes / kPanelVectors;
#pragma GCC unroll 2
    for (int64_t byte = 0; byte < kShare; byte += 64) {
      __builtin_prefetch(codes.scales + codes.group * Scales::kGroupBytes + kAhead + v * kShare + byte, 0, kIntoL2);
    }
  }

  DUNLIN_INLINE const InputGroup& InputsOf(const TileInputs& tile, int row) {
    return *reinterpret_cast<const InputGroup*>(tile.inputs + static_cast<size_t>(row) * tile.rows.stride);
  }

  template <int kRows>
  DUNLIN_INLINE void Start(const TileInputs& tile, Sums<V, kRows, 1>& sums) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      sums.at[r][0] = Multiply::kStarts ? V::AsFloats(V::BroadcastInts(InputsOf(tile, r).start)) : V::Zero();
    }
  }

  // The rows of a tile at a group's first step, each in a register: GCC 12 would spill sums of addresses.
  template <int kRows>
  struct RowPointers {
    const std::byte* at[kRows];
    DUNLIN_INLINE RowPointers Of(const TileRows& rows) {
      RowPointers pointers;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        pointers.at[r] = rows.first + static_cast<size_t>(r) * rows.stride;
        asm("" : "+r"(pointers.at[r]));
      }
      return pointers;
    }
    DUNLIN_INLINE typename V::Factor Value(const RowPointers& rows, int r, int64_t step) {
      return V::ToFactor(*reinterpret_cast<const AliasedFloat*>(rows.at[r] + step * 4));
    }
  };

  // A unit of steps: decoded for all tiles, or read.
  template <int kRows, bool kDecodes>
  DUNLIN_INLINE void MultiplyUnit(const RowPointers<kRows>& rows, const std::byte* codes, std::byte* bytes,
                                  int64_t step, Sums<V, kRows, 1>& sums) {
    using Rows = RowPointers<kRows>;
    constexpr int kTogether = Multiply::kAddsTwo ? 2 : 1;
    static_assert(Panel::kSteps % kTogether == 0);
    typename V::Floats weights[Panel::kSteps];
    if constexpr (kDecodes) Panel::Decode(codes, weights);
#pragma GCC unroll 4
    for (int s = 0; s < Panel::kSteps; ++s) {
      if constexpr (kDecodes) {
        V::Store(bytes + (step + s) * 64, weights[s]);
      } else {
        weights[s] = V::Load(bytes + (step + s) * 64);
      }
    }
#pragma GCC unroll 4
    for (int s = 0; s < Panel::kSteps; s += kTogether) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        typename V::Floats& sum = sums.at[r][0];
        const typename V::Factor value = Rows::Value(rows, r, step + s);
        if constexpr (Multiply::kAddsTwo) {
          sum = Multiply::AddTwo(sum, value, weights[s], Rows::Value(rows, r, step + s + 1), weights[s + 1]);
        } else {
          sum = Multiply::Add(sum, value, weights[s]);
        }
      }
    }
  }

  template <int kRows, bool kDecodes>
  DUNLIN_INLINE void MultiplyGroup(const RowPointers<kRows>& rows, const Codes& codes, int v, std::byte* bytes,
                                   Sums<V, kRows, 1>& sums) {
    const std::byte* from = codes.at + v * Panel::kVectorBytes;
    if (codes.steps == kGroupSteps) [[likely]] {
#pragma GCC unroll 8
      for (int64_t u = 0; u < kGroupUnits; ++u) {
        MultiplyUnit<kRows, kDecodes>(rows, from + u * kUnitBytes, bytes, u * Panel::kSteps, sums);
      }
    } else {
      for (int64_t u = 0; u < codes.steps / Panel::kSteps; ++u) {
        MultiplyUnit<kRows, kDecodes>(rows, from + u * kUnitBytes, bytes, u * Panel::kSteps, sums);
      }
    }
  }

  // The scales of vector v of the group, as floats.
  template <bool kDecodes>
  DUNLIN_INLINE ScaleAndOffset<V> ScalesOfVector(const Codes& codes, int v, Group* group) {
    float* scales = group->scales + v * kLanes;
    float* offsets = group->offsets + v * kLanes;
    if constexpr (!kDecodes) return {V::Load(scales), kOffset == GroupOffset::kNone ? V::Zero() : V::Load(offsets)};
    const ScaleAndOffset<V> read = Scales::Read(codes.scales, codes.group, v * kLanes);
    V::Store(scales, read.scale);
    if constexpr (kOffset != GroupOffset::kNone) V::Store(offsets, read.offset);
    return read;
  }

  template <int kRows>
  DUNLIN_INLINE void AddGroup(const TileInputs& tile, int v, const ScaleAndOffset<V>& of_group,
                              const Sums<V, kRows, 1>& sums) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const InputGroup& inputs = InputsOf(tile, r);
      const int32_t start = Precision::kBiased ? inputs.start : 0;
      float* at = tile.totals + r * kPanelColumns + v * kLanes;
      typename V::Floats sum =
          V::Mul(V::ToFloats(Multiply::Integers(sums.at[r][0], start)), V::Broadcast(inputs.scale));
      if constexpr (kOffset == GroupOffset::kZeroPoint) {
        sum = V::NegMulAdd(of_group.offset, V::Broadcast(inputs.sum), sum);
      }
      typename V::Floats total = V::MulAdd(sum, of_group.scale, V::Load(at));
      if constexpr (kOffset == GroupOffset::kMinimum) {
        total = V::NegMulAdd(of_group.offset, V::Broadcast(inputs.sum), total);
      }
      V::Store(at, total);
    }
  }

  // Not inlined: beside other code GCC 12 spills sums.
  template <int kRows, bool kDecodes>
  __attribute__((noinline)) static void Tile(const TileInputs& inputs, const Codes& of_group, Group* group) {
    const TileInputs tile = inputs;  // in registers: what is stored could overlap them
    const Codes codes = of_group;
    const auto rows = RowPointers<kRows>::Of(tile.rows);
    for (int v = 0; v < kPanelVectors; ++v) {
      if constexpr (kDecodes) Prefetch(codes, v);
      Sums<V, kRows, 1> sums;
      Start(tile, sums);
      MultiplyGroup<kRows, kDecodes>(rows, codes, v, group->bytes[v], sums);
      AddGroup(tile, v, ScalesOfVector<kDecodes>(codes, v, group), sums);
    }
  }
  template <bool kDecodes, int kRows = kTileRows>
  DUNLIN_INLINE void TileOf(int rows, const TileInputs& inputs, const Codes& codes, Group* group) {
    if constexpr (kRows > kTileRowsMin) {
      if (rows != kRows) return TileOf<kDecodes, kRows - 1>(rows, inputs, codes, group);
    }
    Tile<kRows, kDecodes>(inputs, codes, group);
  }

  static Codes CodesAt(const GemmBlock& block, int64_t column, int64_t group) {
    const auto panel = static_cast<size_t>(column / kPanelColumns);
    const int64_t left = block.padded_depth - group * Scales::kGroup;
    return {block.panels + panel * block.panel_bytes + group * kGroupUnits * kUnitBytes,
            block.group_scales + panel * block.group_scale_bytes, group,
            std::min(left, Scales::kGroup) / Precision::kStepDepth};
  }

  // The rows in tiles of nearly equal size: tile t has those from first[t] on.
  struct Tiles {
    explicit Tiles(int32_t rows) : count((rows + kTileRows - 1) / kTileRows) {
      for (int t = 0; t <= count; ++t) first[t] = rows * t / count;
    }
    int count;
    int first[kMaxRows / kTileRows + 1];
  };

  // All rows by a group, which the first tile decodes.
  static void MultiplyRows(const GemmBlock& block, const Tiles& tiles, const Codes& codes, Group* group) {
    const std::byte* rows = block.activation + codes.group * Scales::kGroup;
    const std::byte* inputs =
        block.activation + block.group_sum_offset + static_cast<size_t>(codes.group) * sizeof(InputGroup);
    for (int t = 0; t < tiles.count; ++t) {
      const int row = tiles.first[t];
      const size_t offset = static_cast<size_t>(row) * block.activation_stride;
      const TileInputs tile = {.rows = {rows + offset, block.activation_stride},
                               .inputs = inputs + offset,
                               .totals = reinterpret_cast<float*>(block.scratch) + row * kPanelColumns};
      if (t == 0) {
        TileOf<true>(tiles.first[1], tile, codes, group);
      } else {
        TileOf<false>(tiles.first[t + 1] - row, tile, codes, group);
      }
    }
  }

  static void StoreRows(const GemmBlock& block, int64_t column) {
    const float* totals = reinterpret_cast<const float*>(block.scratch);
    for (int row = 0; row < block.rows; ++row) {
      Sums<V, 1, kPanelVectors> sums;
      Load(totals + row * kPanelColumns, sums);
      Store(block, row, column, sums);
    }
  }

  // REQUIRES: kTileRowsMin <= block.rows <= kMaxRows.
  static void Run(const GemmBlock& block) {
    const Tiles tiles(block.rows);
    Group decoded;
    for (int64_t column = 0; column < block.columns; column += kPanelColumns) {
      std::memset(block.scratch, 0, static_cast<size_t>(block.rows) * kPanelColumns * sizeof(float));
      for (int64_t group = 0; group < block.groups; ++group) {
        MultiplyRows(block, tiles, CodesAt(block, column, group), &decoded);
      }
      StoreRows(block, column);
    }
  }
};

}  // namespace dunlin::kernels::cpu::simd
