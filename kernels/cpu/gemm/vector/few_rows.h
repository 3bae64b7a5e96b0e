// SPDX-License-Identifier: Apache-2.0
// A few rows where the register tile is small (AVX2, NEON). A tile that decodes weights itself would decode each for
// two rows only. Here every weight becomes a float once: while the tiles multiply a chunk of K of a panel, which lies
// as floats in the L1 cache, they widen the next one beside the products, a vector at a time and at an even pace. FP32
// is multiplied in place. Codes are prefetched into L2: L1 has too few buffers for misses to keep memory busy, and
// reading a line once from L2 costs nothing beside products.
//
// Sums are spilled between chunks, so each is the same chain as in every tile (tile.h). A tile is two rows by a panel:
// 12 sums, two values and a weight of 16 registers of 8 lanes, or 24, two and two of 32 of 4. V::Half is 8 lanes.
// Instantiations: tiles of one and two rows.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/gemm/vector/tile.h"

namespace dunlin::kernels::cpu::simd {

// The scales of a chunk's groups as floats: [group][48], each followed by the offsets [48], where there are any.
template <typename V, typename Stored>
struct FloatScales {
  static constexpr GroupOffset kOffset = Stored::kOffset;
  static constexpr int64_t kGroupBytes = kPanelColumns * 8;
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* scales, int64_t index, int64_t column) {
    const std::byte* at = scales + index * kGroupBytes + column * 4;
    if constexpr (kOffset == GroupOffset::kNone) return {V::Load(at), V::Zero()};
    return {V::Load(at), V::Load(at + kPanelColumns * 4)};
  }
};

// Grouped formats: their precision with scales that are floats already.
template <typename V, typename Precision>
struct WithFloatScales : Precision {
  using Scales = FloatScales<V, typename Precision::Scales>;
};

template <typename V, typename Precision>
struct FewRowsGemm {
  using Half = typename V::Half;
  using Panel = typename Precision::Panel;
  static constexpr int64_t kMaxRows = 32;  // above, rows leave L1 between the chunks of two panels
  static constexpr int kTileRows = 2;
  static constexpr int64_t kChunkSteps = 64;  // two chunks of floats are 24 KiB
  static constexpr int64_t kRoundSteps = 4;   // that a tile multiplies before it widens again
  static constexpr bool kInPlace = std::is_same_v<Panel, DensePanel<V>>;
  static constexpr int64_t kStepBytes = kPanelColumns * 4;
  static constexpr int64_t kChunkBytes = kChunkSteps * kStepBytes;
  static constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  static_assert(kChunkSteps % Panel::kSteps == 0);

  // A chunk of the panel at `column`, as floats [steps][48].
  struct Chunk {
    int64_t column;
    int64_t step;  // of K, the first
    int64_t steps;
    const std::byte* codes;
    std::byte* floats;  // where codes are widened to
    std::byte* scales;  // FloatScales of grouped formats

    DUNLIN_INLINE const std::byte* Weights(const Chunk& chunk) { return kInPlace ? chunk.codes : chunk.floats; }
  };

  // Widens a chunk, vector by vector in the order of memory; where it is multiplied in place only prefetches.
  struct Widener {
    const std::byte* codes;
    std::byte* to;
    int64_t vectors;  // of the chunk
    int64_t rounds;   // of all tiles, over which they are spread
    int64_t due;      // vectors * rounds so far - rounds of those that are widened
    int64_t vector;   // of the unit
  };

  DUNLIN_INLINE void WidenVector(Widener& w) {
    constexpr int64_t kHalfBytes = std::min<int64_t>(Panel::kVectorBytes, 64) / 2;
#pragma GCC unroll 3
    for (int64_t line = 0; line < Panel::kVectorBytes; line += 64) {
      __builtin_prefetch(w.codes + kPrefetchBytes + line, 0, kIntoL2);
    }
    if constexpr (!kInPlace) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        std::byte* to = w.to + half * 32;
        const auto put = [to](int s, typename Half::Floats floats) __attribute__((always_inline)) {
          Half::Store(to + s * kStepBytes, floats);
        };
        PanelOf<Panel, Half>::Type::Each(w.codes + half * kHalfBytes, put);
      }
    }
    w.codes += Panel::kVectorBytes;
    w.to += 64;
    if (++w.vector == kPanelVectors) {
      w.vector = 0;
      w.to += (Panel::kSteps - 1) * kStepBytes;
    }
  }
  // A round's share.
  DUNLIN_INLINE void WidenShare(Widener& w) {
    for (w.due += w.vectors; w.due >= w.rounds; w.due -= w.rounds) WidenVector(w);
  }

  // Weights half by half, each for both rows: GCC 12 would load them again for the second.
  template <int kRows>
  DUNLIN_INLINE void MultiplyStep(const TileRows& rows, int64_t step, const std::byte* weights,
                                  Sums<V, kRows, kPanelVectors>& sums) {
    typename Half::Factor a[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) a[r] = Half::ToFactor(TileRows::At(rows, r, step));
#pragma GCC unroll 3
    for (int v = 0; v < kPanelVectors; ++v) {
      const typename Half::Floats low = Half::Load(weights + step * kStepBytes + v * 64);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) sums.at[r][v].low = Half::Accumulate(sums.at[r][v].low, a[r], low);
      const typename Half::Floats high = Half::Load(weights + step * kStepBytes + v * 64 + 32);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) sums.at[r][v].high = Half::Accumulate(sums.at[r][v].high, a[r], high);
    }
  }

  template <int kRows>
  DUNLIN_INLINE void MultiplySteps(const TileRows& rows, const std::byte* weights, int64_t steps, Widener& widener,
                                   Sums<V, kRows, kPanelVectors>& sums) {
    Widener w = widener;  // in registers: what it stores could overlap `widener`
    const int64_t whole = steps / kRoundSteps * kRoundSteps;
    int64_t step = 0;
    for (; step < whole; step += kRoundSteps) {
      WidenShare(w);
#pragma GCC unroll 4
      for (int64_t s = 0; s < kRoundSteps; ++s) MultiplyStep(rows, step + s, weights, sums);
    }
    if (step < steps) WidenShare(w);
    for (; step < steps; ++step) MultiplyStep(rows, step, weights, sums);
    widener = w;
  }

  // Group by group; totals: of the tile, spilled.
  template <int kRows>
  DUNLIN_INLINE void MultiplyGroups(const GemmBlock& block, const Chunk& chunk, int row, TileRows rows, float* totals,
                                    Widener& widener) {
    constexpr int64_t kGroup = Precision::Scales::kGroup;
    static_assert(kChunkSteps % kGroup == 0 && kGroup % kRoundSteps == 0);
    using Floats = WithFloatScales<V, Precision>;
    SpilledTotals<V, kPanelVectors> spilled{totals, chunk.step == 0};
    const std::byte* weights = Chunk::Weights(chunk);
    const std::byte* scales = chunk.scales - chunk.step / kGroup * Floats::Scales::kGroupBytes;  // of group 0
    int64_t group = chunk.step / kGroup;
    for (int64_t left = chunk.steps; left > 0; left -= kGroup, ++group) {
      Sums<V, kRows, kPanelVectors> sums;
      Clear(sums);
      MultiplySteps(rows, weights, std::min(left, kGroup), widener, sums);
      AddGroup<V, Floats>(block, row, group, scales, 0, sums, spilled);
      rows.first += kGroup * 4;
      weights += kGroup * kStepBytes;
    }
  }

  // Not inlined: beside other code GCC 12 spills sums.
  template <int kRows>
  __attribute__((noinline)) static void Tile(const GemmBlock& block, const Chunk& chunk, int row, Widener& widener) {
    float* spilled = reinterpret_cast<float*>(block.scratch) + row * kPanelColumns;
    const TileRows rows{block.activation + static_cast<size_t>(row) * block.activation_stride + chunk.step * 4,
                        block.activation_stride};
    const bool last = chunk.step + chunk.steps == block.padded_depth;
    if (last) PrefetchOutput<kRows, kPanelVectors>(block, row, chunk.column);
    Sums<V, kRows, kPanelVectors> sums;
    if constexpr (Precision::kGrouped) {
      MultiplyGroups<kRows>(block, chunk, row, rows, spilled, widener);
      if (!last) return;
      Load(spilled, sums);
    } else {
      if (chunk.step == 0) {
        Clear(sums);
      } else {
        Load(spilled, sums);
      }
      MultiplySteps(rows, Chunk::Weights(chunk), chunk.steps, widener, sums);
      if (!last) return Spill(sums, spilled);
    }
    Store(block, row, chunk.column, sums);
  }

  DUNLIN_INLINE void WidenScales(const GemmBlock& block, const Chunk& chunk) {
    if constexpr (Precision::kGrouped) {
      using Scales = typename Precision::Scales;
      constexpr int64_t kAhead = kPrefetchBytes / (Scales::kGroup / Panel::kSteps * kUnitBytes) * Scales::kGroupBytes;
      const std::byte* scales =
          block.group_scales + static_cast<size_t>(chunk.column / kPanelColumns) * block.group_scale_bytes;
      std::byte* to = chunk.scales;
      for (int64_t step = 0; step < chunk.steps; step += Scales::kGroup) {
        const int64_t group = (chunk.step + step) / Scales::kGroup;
#pragma GCC unroll 6
        for (int64_t byte = 0; byte < Scales::kGroupBytes; byte += 64) {
          __builtin_prefetch(scales + group * Scales::kGroupBytes + kAhead + byte, 0, kIntoL2);
        }
        for (int64_t v = 0; v < kPanelVectors; ++v) {
          const ScaleAndOffset<V> read = Scales::Read(scales, group, v * kLanes);
          V::Store(to + v * 64, read.scale);
          if constexpr (Scales::kOffset != GroupOffset::kNone) V::Store(to + kPanelColumns * 4 + v * 64, read.offset);
        }
        to += FloatScales<V, Scales>::kGroupBytes;
      }
    }
  }

  // Scratch: the sums [rows][48], and where other blocks widen a slice, two chunks and their scales by turns.
  static Chunk ChunkAt(const GemmBlock& block, int64_t column, int64_t step, bool second) {
    constexpr int64_t kScaleBytes = kChunkSteps / kSmallestGroup * kPanelColumns * 8;
    static_assert(2 * (kChunkBytes + kScaleBytes) <=
                  static_cast<int64_t>(kScratchBytes - kGemmPanelsMax * kGemmSumBytes));
    std::byte* scratch = block.scratch + kGemmPanelsMax * kGemmSumBytes + (second ? kChunkBytes + kScaleBytes : 0);
    const std::byte* panel = block.panels + static_cast<size_t>(column / kPanelColumns) * block.panel_bytes;
    const int64_t left = block.padded_depth - step;
    return {column,
            step,
            left < kChunkSteps ? left : kChunkSteps,
            panel + step / Panel::kSteps * kUnitBytes,
            scratch,
            scratch + kChunkBytes};
  }
  static Widener StartWidening(const GemmBlock& block, const Chunk& chunk, int64_t rounds) {
    WidenScales(block, chunk);
    return {chunk.codes, chunk.floats, chunk.steps / Panel::kSteps * kPanelVectors, rounds, 0, 0};
  }

  // REQUIRES: block.rows <= kMaxRows; no block scales.
  static void Run(const GemmBlock& block) {
    const int64_t tiles = (block.rows + kTileRows - 1) / kTileRows;
    bool second = false;
    Chunk chunk = ChunkAt(block, 0, 0, second);
    Widener widener = StartWidening(block, chunk, /*rounds=*/1);
    WidenShare(widener);
    while (chunk.column < block.columns) {
      const int64_t step = chunk.step + chunk.steps;
      const bool last = step == block.padded_depth;
      second = !second;
      const Chunk next = ChunkAt(block, last ? chunk.column + kPanelColumns : chunk.column, last ? 0 : step, second);
      const int64_t rounds = (chunk.steps + kRoundSteps - 1) / kRoundSteps * tiles;
      widener =
          next.column < block.columns ? StartWidening(block, next, rounds) : Widener{nullptr, nullptr, 0, 1, 0, 0};
      int row = 0;
      for (; row + kTileRows <= block.rows; row += kTileRows) Tile<kTileRows>(block, chunk, row, widener);
      if (row < block.rows) Tile<1>(block, chunk, row, widener);
      chunk = next;
    }
  }
};

}  // namespace dunlin::kernels::cpu::simd
