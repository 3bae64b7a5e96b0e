// SPDX-License-Identifier: Apache-2.0
// How a block of rows by panels is covered by register tiles, for every precision.
//
// Small M (decode): a panel is read once from memory and decoded in registers, by one tile, or by several tiles of rows
// one after another where decoding costs little. Large M: a slice of K of one panel meets all rows of the block in
// tiles, each of which decodes it in registers: that costs less than reading floats, which are more bytes, from the L2
// cache. Weights for which it would cost more are widened into scratch once a slice, by the first tile, a few steps
// before it multiplies them: codes, and on AVX2, where a tile has a vector of columns only, every weight. Sums are
// spilled to scratch between slices. Where the block's rows do not fit the L2 cache, several panels take the same slice
// of K before the next, so that the rows' part of it stays there. While tiles multiply a slice they prefetch the next
// one. Both paths compute the same chain per sum, so they give the same bits. With block scales a slice is a scale
// block: its sums start at +0, are scaled and added to the totals, in ascending order in both paths. So are the sums of
// each group of a grouped format.
//
// Members of a Precision:
//   Multiply          how a product is added to a sum
//   Panel             decodes whole panels, for small M
//   SlicePanel        decodes slices, for large M
//   Widen             where SlicePanel is not Panel: makes kUnits vectors of it from a vector of the panel
//   kStepDepth        elements of K in one K step
//   kSmallMRows       rows of a tile that decodes whole panels
//   kMaxSmallM        up to so many rows several such tiles are used; 0: one only
//   kMaxBlockScaledM  up to so many rows weights with block scales use one such tile; 0: none has block scales
//   kLocality         cache level of prefetches (PanelLocality has the exceptions)
//   kGrouped          codes come in groups, each with a scale; then also Scales (group_scales.h)
//   kIntegers         sums of groups are integers (byte_products.h); then also kBiased: they start with
//   InputGroup::start
// Instantiations: up to 8 small-M tiles (FP8 also with block scales), and kSliceRowsMin to kTileRows rows of slice
// tiles, with prefetches and (but of integers) without (twice that where slices are widened).
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/gemm/vector/few_rows.h"
#include "kernels/cpu/gemm/vector/few_rows_int8.h"
#include "kernels/cpu/gemm/vector/tile.h"

namespace dunlin::kernels::cpu::simd {

template <typename V, typename Precision>
struct VectorGemm {
  using Multiply = typename Precision::Multiply;
  using Panel = typename Precision::Panel;
  using Tile = TileShape<V>;
  using SlicePanel = typename Precision::SlicePanel;
  static constexpr int kSteps = Panel::kSteps;
  static constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  static constexpr int64_t kUnitDepth = kSteps * Precision::kStepDepth;

  static constexpr int kSmallMRows = std::min(Precision::kSmallMRows, Tile::kSmallMRows);
  static constexpr int kPanelRows = std::max(kSmallMRows, Precision::kMaxSmallM);  // that take a whole panel
  static constexpr int kMaxBlockScaledM = std::min(Precision::kMaxBlockScaledM, Tile::kSmallMRows);
  static constexpr bool kScaled = kMaxBlockScaledM > 0;
  static_assert(kSmallMRows + 1 >= Tile::kTileRowsMin && (!kScaled || kMaxBlockScaledM + 1 >= Tile::kTileRowsMin));
  static constexpr bool kWidened = !std::is_same_v<Panel, SlicePanel>;
  // Where a tile decodes a weight for few products of floats, slices are of floats, and few rows have their own way
  // (few_rows.h).
  static constexpr bool kWidensOnce = !Tile::kLarge && Precision::kStepDepth == 1;
  static constexpr bool kFewRowsInt8 = !Tile::kLarge && MultipliesPairs<Multiply>;
  // Of integers few rows have their own way, so that slices have more than 32. Floats keep all tiles: without those of
  // three and four rows GCC 12 makes slower code of the others (BF16, 256 rows: 1.2 times the time).
  static constexpr int kSliceRowsMin = kFewRowsInt8 && !kScaled ? 5 : Tile::kTileRowsMin;
  // Of floats so many that a tile's columns stay in L1.
  static constexpr int64_t kSliceSteps = kWidensOnce ? 256 : kGemmDepthBlock;
  static constexpr Locality kSliceLocality = kWidensOnce ? kIntoL2 : Precision::kLocality;
  // For one or two tiles of rows, which finish a slice sooner than memory delivers the next one: short enough that the
  // prefetched lines are still in L1 when they are read.
  static constexpr int64_t kFewTilesSteps = 128;
  static constexpr int64_t kBlockSteps = kScaleBlock / Precision::kStepDepth;
  static_assert(kBlockSteps <= kSliceSteps);
  // The share of an L2 cache (1 MiB on server cores) that the rows of a block may fill.
  static constexpr int64_t kRowBytesMax = 512 << 10;

  // A slice of one panel against the rows of the block, for the tile's vectors of it.
  struct Slice {
    PanelSlice panel;
    size_t activation_offset;  // bytes into a row
    int64_t column;
    bool first;
    bool last;
    const float* weight_scale;  // at the column, when the slice is a block with its own scale, or null
    int64_t scale_index;
    float* spilled;                 // [rows][kTileVectors][16]
    const std::byte* group_scales;  // grouped formats: of the panel
    int64_t panel_column;           // grouped formats: the column in the panel
    int64_t group;                  // grouped formats: the slice's first
  };

  template <int kRows>
  static void SmallMScaledBlock(const GemmBlock& block) {
    constexpr int64_t kUnits = kScaleBlock / kUnitDepth;
    const int64_t units = block.padded_depth / kUnitDepth;
    const std::byte* panel = block.panels;
    const float* scales = block.weight_scale;
    for (int64_t column = 0; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
      Sums<V, kRows, kPanelVectors> totals;
      Clear(totals);
      for (int64_t index = 0; index < block.scales_per_row; ++index, scales += kPanelColumns) {
        const int64_t first = index * kUnits;
        Sums<V, kRows, kPanelVectors> sums;
        Clear(sums);
        AccumulatePanel<V, Multiply, Panel, PanelLocality<Panel>(Precision::kLocality, kRows)>(
            {block.activation + first * kSteps * 4, block.activation_stride}, panel + first * kUnitBytes,
            units - first < kUnits ? units - first : kUnits, sums);
        AddScaled(block, 0, index, scales, sums, totals);
      }
      Store(block, 0, column, totals);
    }
  }

  // Grouped formats: group by group, with the totals of more than two rows in the L1 cache.
  template <int kRows>
  static void SmallMGroupedTile(const GemmBlock& block, int row, const std::byte* panel, int64_t column) {
    using Scales = typename Precision::Scales;
    constexpr int64_t kUnits = Scales::kGroup / kUnitDepth;
    constexpr int64_t kScalesAhead = kPrefetchBytes / (kUnits * kUnitBytes) * Scales::kGroupBytes;
    const int64_t units = block.padded_depth / kUnitDepth;
    const std::byte* scales = ScalesOf(block, column);
    PrefetchOutput<kRows, kPanelVectors>(block, row, column);
    constexpr bool kInRegisters = Tile::kLarge && kRows <= 2;
    alignas(64) float spilled[kRows * kPanelColumns];
    std::conditional_t<kInRegisters, RegisterTotals<V, kRows, kPanelVectors>, SpilledTotals<V, kPanelVectors>> totals;
    totals.empty = true;
    if constexpr (kInRegisters) {
      Clear(totals.sums);
    } else {
      totals.at = spilled;
    }
    TileRows rows{block.activation + static_cast<size_t>(row) * block.activation_stride, block.activation_stride};
    for (int64_t group = 0; group < block.groups; ++group) {
#pragma GCC unroll 6
      for (int64_t byte = 0; byte < Scales::kGroupBytes; byte += 64) {
        __builtin_prefetch(scales + group * Scales::kGroupBytes + kScalesAhead + byte);
      }
      const int64_t left = units - group * kUnits;
      Sums<V, kRows, kPanelVectors> sums;
      StartGroup<V, Precision>(block, row, group, sums);
      AccumulatePanel<V, Multiply, Panel, PanelLocality<Panel>(Precision::kLocality, kRows)>(
          rows, panel, left < kUnits ? left : kUnits, sums);
      AddGroup<V, Precision>(block, row, group, scales, 0, sums, totals);
      rows.first += kUnits * kSteps * 4;
      panel += kUnits * kUnitBytes;
    }
    Sums<V, kRows, kPanelVectors> sums;
    if constexpr (kInRegisters) {
      sums = totals.sums;
    } else {
      Load(spilled, sums);
    }
    Store(block, row, column, sums);
  }

  template <int kRows>
  static void SmallMTile(const GemmBlock& block, int row, const std::byte* panel, int64_t column) {
    if constexpr (Precision::kGrouped) return SmallMGroupedTile<kRows>(block, row, panel, column);
    const std::byte* rows = block.activation + static_cast<size_t>(row) * block.activation_stride;
    PrefetchOutput<kRows, kPanelVectors>(block, row, column);
    Sums<V, kRows, kPanelVectors> sums;
    Clear(sums);
    AccumulatePanel<V, Multiply, Panel, PanelLocality<Panel>(Precision::kLocality, kRows)>(
        {rows, block.activation_stride}, panel, block.padded_depth / kUnitDepth, sums);
    Store(block, row, column, sums);
  }
  template <int kRows>
  static void SmallMTileOf(const GemmBlock& block, int row, int rows, const std::byte* panel, int64_t column) {
    if constexpr (kRows > 0) {
      if (rows == kRows) return SmallMTile<kRows>(block, row, panel, column);
      SmallMTileOf<kRows - 1>(block, row, rows, panel, column);
    }
  }
  static void SmallMBlock(const GemmBlock& block) {
    const int tiles = (block.rows + kSmallMRows - 1) / kSmallMRows;
    const std::byte* panel = block.panels;
    for (int64_t column = 0; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int row = block.rows * tile / tiles;
        SmallMTileOf<kSmallMRows>(block, row, block.rows * (tile + 1) / tiles - row, panel, column);
      }
    }
  }

  // Grouped formats: the scales of the panel at `column`.
  static const std::byte* ScalesOf(const GemmBlock& block, int64_t column) {
    return block.group_scales + static_cast<size_t>(column / kPanelColumns) * block.group_scale_bytes;
  }

  template <typename WidenOfTile, bool kPrefetches, int kRows>
  static void GroupedSliceTile(const GemmBlock& block, const Slice& slice, int row) {
    using Scales = typename Precision::Scales;
    constexpr int64_t kUnits = Scales::kGroup / kUnitDepth;  // of codes
    constexpr int64_t kGroupSteps = kUnits * kSteps;
    constexpr int64_t kSliceUnits = kGroupSteps / SlicePanel::kSteps;
    float* spilled = slice.spilled + row * Tile::kTileVectors * kLanes;
    if (slice.last) PrefetchOutput<kRows, Tile::kTileVectors>(block, row, slice.column);
    SpilledTotals<V, Tile::kTileVectors> totals{spilled, slice.first};
    TileRows rows{block.activation + static_cast<size_t>(row) * block.activation_stride + slice.activation_offset,
                  block.activation_stride};
    PanelSlice part = slice.panel;
    int64_t group = slice.group;
    for (int64_t left = slice.panel.units; left > 0; left -= kSliceUnits, ++group) {
      part.units = left < kSliceUnits ? left : kSliceUnits;
      Sums<V, kRows, Tile::kTileVectors> sums;
      StartGroup<V, Precision>(block, row, group, sums);
      AccumulateSlice<V, Multiply, SlicePanel, WidenOfTile, kSliceLocality, kPrefetches>(rows, part, sums);
      AddGroup<V, Precision>(block, row, group, slice.group_scales, slice.panel_column, sums, totals);
      rows.first += kGroupSteps * 4;
      part.at += kSliceUnits * kPanelVectors * SlicePanel::kVectorBytes;
      part.widened += kSliceUnits * kPanelVectors * SlicePanel::kVectorBytes;
      part.codes += kUnits * kUnitBytes;
      part.next += kGroupSteps / 4 * Tile::kNextLines * 64;
    }
    if (!slice.last) return;
    Sums<V, kRows, Tile::kTileVectors> sums;
    Load(spilled, sums);
    Store(block, row, slice.column, sums);
  }

  template <typename WidenOfTile, bool kPrefetches, int kRows>
  static void SliceTile(const GemmBlock& block, const Slice& slice, int row) {
    if constexpr (Precision::kGrouped) return GroupedSliceTile<WidenOfTile, kPrefetches, kRows>(block, slice, row);
    float* spilled = slice.spilled + row * Tile::kTileVectors * kLanes;
    if (slice.last) PrefetchOutput<kRows, Tile::kTileVectors>(block, row, slice.column);
    const bool scaled = kScaled && slice.weight_scale != nullptr;
    Sums<V, kRows, Tile::kTileVectors> sums;
    if (slice.first || scaled) {
      Clear(sums);
    } else {
      Load(spilled, sums);
    }
    const std::byte* rows = block.activation + static_cast<size_t>(row) * block.activation_stride;
    AccumulateSlice<V, Multiply, SlicePanel, WidenOfTile, kSliceLocality, kPrefetches>(
        {rows + slice.activation_offset, block.activation_stride}, slice.panel, sums);
    if (scaled) {
      Sums<V, kRows, Tile::kTileVectors> totals;
      if (slice.first) {
        Clear(totals);
      } else {
        Load(spilled, totals);
      }
      AddScaled(block, row, slice.scale_index, slice.weight_scale, sums, totals);
      sums = totals;
    }
    if (slice.last) {
      Store(block, row, slice.column, sums);
    } else {
      Spill(sums, spilled);
    }
  }

  template <typename WidenOfTile, bool kPrefetches, int kRows>
  static void SliceTileOf(const GemmBlock& block, const Slice& slice, int row, int rows) {
    if constexpr (kRows >= kSliceRowsMin) {
      if (rows == kRows) return SliceTile<WidenOfTile, kPrefetches, kRows>(block, slice, row);
      SliceTileOf<WidenOfTile, kPrefetches, kRows - 1>(block, slice, row, rows);
    }
  }

  template <bool kPrefetches>
  static void SliceTileOf(const GemmBlock& block, const Slice& slice, int row, int rows, bool widens) {
    if constexpr (kWidened) {
      if (widens) return SliceTileOf<typename Precision::Widen, kPrefetches, Tile::kTileRows>(block, slice, row, rows);
    }
    SliceTileOf<InPlace, kPrefetches, Tile::kTileRows>(block, slice, row, rows);
  }

  // The rows in tiles of nearly equal size. The first one widens the slice, where `widens`; the first ones prefetch the
  // `next_lines` lines of the next slice, if that is > 0. Returns how many are left for the next columns.
  static int64_t SliceRows(const GemmBlock& block, Slice slice, int64_t next_lines, bool widens) {
    const int tiles = (block.rows + Tile::kTileRows - 1) / Tile::kTileRows;
    const int64_t tile_lines = slice.panel.units * SlicePanel::kSteps / 4 * Tile::kNextLines;
    for (int tile = 0; tile < tiles; ++tile) {
      const int row = block.rows * tile / tiles;
      const int rows = block.rows * (tile + 1) / tiles - row;
      const bool first = widens && tile == 0;
      if constexpr (Precision::kIntegers) {
        // One set of tiles, because these are long to compile: those that have no next slice prefetch their own lines,
        // which are cached. That is less than one in fifty of a tile's instructions.
        if (next_lines <= 0) slice.panel.next = slice.panel.widened;
        SliceTileOf<true>(block, slice, row, rows, first);
      } else if (next_lines > 0) {
        SliceTileOf<true>(block, slice, row, rows, first);
      } else {
        SliceTileOf<false>(block, slice, row, rows, first);
      }
      slice.panel.next += tile_lines * 64;
      next_lines -= tile_lines;
    }
    return next_lines;
  }

  static int64_t SliceSteps(const GemmBlock& block) {
    if (kScaled && block.scales_per_row > 1) return kBlockSteps;
    return block.rows <= 2 * Tile::kTileRows ? kFewTilesSteps : kSliceSteps;
  }

  // Slice `index` of the panel at `column`. spilled: [48 / tile columns][rows][tile columns]; next: the panel bytes
  // that are read after it, or null.
  static void MultiplySlice(const GemmBlock& block, int64_t column, int64_t index, float* spilled,
                            const std::byte* next) {
    const bool scaled = kScaled && block.scales_per_row > 1;
    const int64_t steps = block.padded_depth / Precision::kStepDepth;
    const int64_t slice_steps = SliceSteps(block);
    const int64_t step = index * slice_steps;
    const int64_t count = steps - step < slice_steps ? steps - step : slice_steps;
    const std::byte* codes =
        block.panels + static_cast<size_t>(column / kPanelColumns) * block.panel_bytes + step / kSteps * kUnitBytes;
    const float* scales = scaled ? block.weight_scale + column * block.scales_per_row + index * kPanelColumns : nullptr;
    std::byte* widened = block.scratch + kGemmPanelsMax * kGemmSumBytes;
    const std::byte* at = kWidened ? widened : codes;
    Slice slice{{at, count / SlicePanel::kSteps, codes, widened, next},
                static_cast<size_t>(step) * 4,
                column,
                step == 0,
                step + count == steps,
                scales,
                index,
                spilled,
                nullptr,
                0,
                0};
    if constexpr (Precision::kGrouped) {
      slice.group_scales = ScalesOf(block, column);
      slice.group = step * Precision::kStepDepth / Precision::Scales::kGroup;
    }
    int64_t next_lines = next == nullptr ? 0 : count / kSteps * kUnitBytes / 64;
    constexpr int64_t kColumns = Tile::kTileVectors * kLanes;
    for (int64_t first = 0; first < kPanelColumns && slice.column < block.columns; first += kColumns) {
      const int64_t left = SliceRows(block, slice, next_lines, kWidened && first == 0);
      if (next_lines > 0) slice.panel.next += (next_lines - left) * 64;
      next_lines = left;
      slice.panel.at += Tile::kTileVectors * SlicePanel::kVectorBytes;
      slice.column += kColumns;
      slice.spilled += block.rows * kColumns;
      if (scaled) slice.weight_scale += kColumns;
      slice.panel_column += kColumns;
    }
  }

  static void LargeMBlock(const GemmBlock& block) {
    const int64_t steps = block.padded_depth / Precision::kStepDepth;
    const int64_t slice_steps = SliceSteps(block);
    const int64_t slices = (steps + slice_steps - 1) / slice_steps;
    const int64_t slice_bytes = slice_steps / kSteps * kUnitBytes;
    const int64_t panels = NumPanels(block.columns);
    const int64_t together = block.rows * steps * 4 > kRowBytesMax ? kGemmPanelsMax : 1;
    for (int64_t first = 0; first < panels; first += together) {
      const int64_t end = panels - first < together ? panels : first + together;
      for (int64_t index = 0; index < slices; ++index) {
        for (int64_t panel = first; panel < end; ++panel) {
          const int64_t next_index = panel + 1 < end ? index : (index + 1) % slices;
          const int64_t next_panel = panel + 1 < end ? panel + 1 : (index + 1 < slices ? first : end);
          const std::byte* next =
              next_panel < panels
                  ? block.panels + static_cast<size_t>(next_panel) * block.panel_bytes + next_index * slice_bytes
                  : nullptr;
          float* spilled =
              reinterpret_cast<float*>(block.scratch + (panel - first) * static_cast<int64_t>(kGemmSumBytes));
          MultiplySlice(block, panel * kPanelColumns, index, spilled, next);
        }
      }
    }
  }

  template <int kRows>
  static void SmallMScaledBlockOf(const GemmBlock& block) {
    if constexpr (kRows > 0) {
      if (block.rows == kRows) return SmallMScaledBlock<kRows>(block);
      SmallMScaledBlockOf<kRows - 1>(block);
    }
  }

  static void Run(const GemmBlock& block) {
    if (kScaled && block.scales_per_row > 1) {
      if (block.rows > kMaxBlockScaledM) return LargeMBlock(block);
      return SmallMScaledBlockOf<kMaxBlockScaledM>(block);
    }
    if constexpr (kWidensOnce) {
      using FewRows = FewRowsGemm<V, Precision>;
      if (block.rows > kPanelRows && block.rows <= FewRows::kMaxRows) return FewRows::Run(block);
    }
    if constexpr (kFewRowsInt8) {
      using FewRows = FewRowsInt8Gemm<V, Precision>;
      if (block.rows > kPanelRows && block.rows <= FewRows::kMaxRows) return FewRows::Run(block);
    }
    if constexpr (kPanelRows < kGemmRowsMax) {
      if (block.rows > kPanelRows) return LargeMBlock(block);
    }
    SmallMBlock(block);
  }
};

}  // namespace dunlin::kernels::cpu::simd
