// How a block of rows by panels is covered by register tiles, for every precision.
//
// Few rows (decode): a panel is read once and decoded in registers, where they suffice two panels at a time for
// independent chains.
// Many rows: a slice of K of one panel, decoded into scratch when it is not dense, meets all rows of the block in
// tiles; sums are parked between slices. Where the block's rows do not fit the L2 cache, several panels take the same
// slice of K before the next, so that the rows' part of it stays there. While the tiles multiply they ask memory for
// the slice that comes next. Both walk the same chain per sum, so they give the same bits. With block scales a slice is
// a block: its sums start at +0, are scaled and added to the totals, in ascending order in both.
//
// Precision: Multiply, Panel (tile.h), kDense (whether a panel's bytes are dense), kStepDepth (K elements of a step)
// and kNarrowRows (the rows up to which decoding in registers pays). kScaled: whether weights may have block scales.
// Instantiations: per arithmetic up to 8 narrow tiles (some also two panels wide; FP8 also with block scales), and
// kTileRowsMin to kTileRows rows of slice tiles.
#pragma once

#include "kernels/cpu/vector/tile.h"

namespace dunlin::kernels::cpu::vector {

template <typename V, typename Precision>
struct GemmOf {
  using Multiply = typename Precision::Multiply;
  using Panel = typename Precision::Panel;
  static constexpr int kSteps = Panel::kSteps;
  static constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  static constexpr int64_t kUnitDepth = kSteps * Precision::kStepDepth;

  static constexpr int64_t kSliceSteps = kGemmDepthBlock;
  static constexpr int64_t kBlockSteps = kScaleBlock / Precision::kStepDepth;
  static_assert(kBlockSteps <= kSliceSteps);
  // Of the part of an L2 cache (1 MiB on server cores) that the rows of a block may fill.
  static constexpr int64_t kRowBytesMax = 512 << 10;

  // A slice of one panel against the rows of the block, for the tile's vectors of it.
  struct Slice {
    DenseSlice dense;
    size_t activation_offset;  // bytes into a row
    int64_t column;
    bool first;
    bool last;
    const float* weight_scale;  // at the column, when the slice is a block with its own scale, or null
    int64_t scale_index;
    float* parked;  // [rows][kTileVectors][16]
  };

  template <int kRows>
  static void NarrowScaledBlock(const GemmBlock& block) {
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
        AccumulatePanels<V, Multiply, Panel>({block.activation + first * kSteps * 4, block.activation_stride},
                                             panel + first * kUnitBytes, 0,
                                             units - first < kUnits ? units - first : kUnits, sums);
        AddScaled(block, 0, index, scales, sums, totals);
      }
      Store(block, 0, column, totals);
    }
  }

  template <int kRows, int kPanels>
  static const std::byte* NarrowPanels(const GemmBlock& block, const std::byte* panel, int64_t* column) {
    for (; *column + (kPanels - 1) * kPanelColumns < block.columns; *column += kPanels * kPanelColumns) {
      Sums<V, kRows, kPanels * kPanelVectors> sums;
      Clear(sums);
      AccumulatePanels<V, Multiply, Panel>({block.activation, block.activation_stride}, panel, block.panel_bytes,
                                           block.padded_depth / kUnitDepth, sums);
      Store(block, 0, *column, sums);
      panel += kPanels * block.panel_bytes;
    }
    return panel;
  }

  template <int kRows>
  static void NarrowBlock(const GemmBlock& block) {
    if constexpr (Precision::kScaled) {
      if (block.scales_per_row > 1) return NarrowScaledBlock<kRows>(block);
    }
    const std::byte* panel = block.panels;
    int64_t column = 0;
    if constexpr (kRows * kSteps <= V::kTwoPanelSteps) panel = NarrowPanels<kRows, 2>(block, panel, &column);
    NarrowPanels<kRows, 1>(block, panel, &column);
  }

  template <int64_t kStride, bool kAhead, int kRows>
  static void SliceTile(const GemmBlock& block, const Slice& slice, int row) {
    float* parked = slice.parked + row * V::kTileVectors * kLanes;
    const bool scaled = Precision::kScaled && slice.weight_scale != nullptr;
    Sums<V, kRows, V::kTileVectors> sums;
    if (slice.first || scaled) {
      Clear(sums);
    } else {
      Load(parked, sums);
    }
    const std::byte* rows = block.activation + static_cast<size_t>(row) * block.activation_stride;
    AccumulateSlice<V, Multiply, kStride, kAhead>({rows + slice.activation_offset, block.activation_stride},
                                                  slice.dense, sums);
    if (scaled) {
      Sums<V, kRows, V::kTileVectors> totals;
      if (slice.first) {
        Clear(totals);
      } else {
        Load(parked, totals);
      }
      AddScaled(block, row, slice.scale_index, slice.weight_scale, sums, totals);
      sums = totals;
    }
    if (slice.last) {
      Store(block, row, slice.column, sums);
    } else {
      Park(sums, parked);
    }
  }

  template <int64_t kStride, bool kAhead, int kRows>
  static void SliceTileOf(const GemmBlock& block, const Slice& slice, int row, int rows) {
    if constexpr (kRows >= V::kTileRowsMin) {
      if (rows == kRows) return SliceTile<kStride, kAhead, kRows>(block, slice, row);
      SliceTileOf<kStride, kAhead, kRows - 1>(block, slice, row, rows);
    }
  }

  // The rows in tiles of nearly equal size. The first ones ask memory for the next slice, `ahead_lines` lines.
  template <int64_t kStride>
  static void SliceRows(const GemmBlock& block, Slice slice, int64_t ahead_lines) {
    const int tiles = (block.rows + V::kTileRows - 1) / V::kTileRows;
    for (int tile = 0; tile < tiles; ++tile) {
      const int row = block.rows * tile / tiles;
      const int end = block.rows * (tile + 1) / tiles;
      if (ahead_lines > 0) {
        SliceTileOf<kStride, true, V::kTileRows>(block, slice, row, end - row);
        slice.dense.ahead += slice.dense.steps * 64;
        ahead_lines -= slice.dense.steps;
      } else {
        SliceTileOf<kStride, false, V::kTileRows>(block, slice, row, end - row);
      }
    }
  }

  // `units` units of a panel to dense vectors, [group of kTileVectors][step][kTileVectors].
  static void DecodeSlice(const std::byte* at, int64_t units, std::byte* to) {
    constexpr int64_t kStepBytes = V::kTileVectors * kVectorStepBytes;
    const int64_t group_bytes = units * kSteps * kStepBytes;
    for (int64_t unit = 0; unit < units; ++unit, at += kUnitBytes) {
#pragma GCC unroll 3
      for (int v = 0; v < kPanelVectors; ++v) {
        typename V::Floats weights[kSteps];
        Panel::Decode(at + v * Panel::kVectorBytes, weights);
        std::byte* vector = to + v / V::kTileVectors * group_bytes + unit * kSteps * kStepBytes +
                            v % V::kTileVectors * kVectorStepBytes;
#pragma GCC unroll 4
        for (int s = 0; s < kSteps; ++s) V::Store(vector + s * kStepBytes, weights[s]);
      }
    }
  }

  // Slice `index` of the panel at `column`. parked: [48 / tile columns][rows][tile columns]; ahead: the panel bytes
  // that are needed next, or null.
  static void SlicePanel(const GemmBlock& block, int64_t column, int64_t index, float* parked, const std::byte* ahead) {
    const bool scaled = Precision::kScaled && block.scales_per_row > 1;
    const int64_t steps = block.padded_depth / Precision::kStepDepth;
    const int64_t slice_steps = scaled ? kBlockSteps : kSliceSteps;
    const int64_t step = index * slice_steps;
    const int64_t count = steps - step < slice_steps ? steps - step : slice_steps;
    const std::byte* at =
        block.panels + static_cast<size_t>(column / kPanelColumns) * block.panel_bytes + step / kSteps * kUnitBytes;
    const float* scales = scaled ? block.weight_scale + column * block.scales_per_row + index * kPanelColumns : nullptr;
    Slice slice{{at, count, ahead},
                static_cast<size_t>(step) * 4,
                column,
                step == 0,
                step + count == steps,
                scales,
                index,
                parked};
    const int64_t ahead_lines = ahead == nullptr ? 0 : count / kSteps * kUnitBytes / 64;
    constexpr int64_t kColumns = V::kTileVectors * kLanes;
    constexpr int64_t kStepBytes = Precision::kDense ? kPanelVectors * kVectorStepBytes : kColumns * 4;
    std::byte* decoded = block.scratch + kGemmPanelsMax * kGemmSumBytes;
    if constexpr (!Precision::kDense) {
      DecodeSlice(at, count / kSteps, decoded);
      slice.dense.weights = decoded;
    }
    for (int64_t first = 0; first < kPanelColumns && slice.column < block.columns; first += kColumns) {
      SliceRows<kStepBytes>(block, slice, first == 0 ? ahead_lines : 0);
      slice.dense.weights += Precision::kDense ? kColumns * 4 : count * kStepBytes;
      slice.column += kColumns;
      slice.parked += block.rows * kColumns;
      if (scaled) slice.weight_scale += kColumns;
    }
  }

  static void WideBlock(const GemmBlock& block) {
    const bool scaled = Precision::kScaled && block.scales_per_row > 1;
    const int64_t steps = block.padded_depth / Precision::kStepDepth;
    const int64_t slice_steps = scaled ? kBlockSteps : kSliceSteps;
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
              block.panels + static_cast<size_t>(next_panel) * block.panel_bytes + next_index * slice_bytes;
          const std::byte* ahead = next_panel < panels ? next : nullptr;
          float* parked =
              reinterpret_cast<float*>(block.scratch + (panel - first) * static_cast<int64_t>(kGemmSumBytes));
          SlicePanel(block, panel * kPanelColumns, index, parked, ahead);
        }
      }
    }
  }

  template <int kRows>
  static void NarrowBlockOf(const GemmBlock& block) {
    if constexpr (kRows > 0) {
      if (block.rows == kRows) return NarrowBlock<kRows>(block);
      NarrowBlockOf<kRows - 1>(block);
    }
  }

  static void Run(const GemmBlock& block) {
    constexpr int kNarrowRows = Precision::kNarrowRows < V::kNarrowRows ? Precision::kNarrowRows : V::kNarrowRows;
    static_assert(kNarrowRows + 1 >= V::kTileRowsMin);
    if (block.rows > kNarrowRows) return WideBlock(block);
    NarrowBlockOf<kNarrowRows>(block);
  }
};

}  // namespace dunlin::kernels::cpu::vector
