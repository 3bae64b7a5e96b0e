// How a block of rows by panels is covered by register tiles, for every precision. AVX-512 translation units only.
//
// Few rows (decode): the panel is read once and decoded in registers, two panels at a time for independent chains.
// Many rows: a slice of K of one panel, decoded into scratch when it is not dense, meets all rows of the block; sums
// are parked between slices. Both walk the same chain per sum, so they give the same bits. With block scales a slice is
// a block: its sums start at +0, are scaled and added to the totals, in ascending order in both.
// Instantiations: per arithmetic 4 to 8 narrow tiles (some also two panels wide; FP8 also with block scales), and 8
// dense ones.
#pragma once

#include "kernels/cpu/avx512/tile.h"
#include "kernels/cpu/packed_layout.h"

namespace dunlin::kernels::cpu::avx512 {

inline constexpr int64_t kSliceSteps = 128;  // 24 KiB of dense panel: half of a 48 KiB L1
static_assert(static_cast<size_t>(kSliceSteps * kStepBytes) + kGemmSumBytes <= kScratchBytes);

template <typename Multiply, typename Panel, int kRows>
void NarrowScaledBlock(const GemmBlock& block, int64_t units) {
  constexpr int64_t kUnits = kScaleBlock / Panel::kDepth;
  const std::byte* panel = block.panels;
  const float* scales = block.weight_scale;
  for (int64_t column = 0; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
    Sums<kRows, 1> totals;
    Clear(totals);
    for (int64_t index = 0; index < block.scales_per_row; ++index, scales += kPanelColumns) {
      const int64_t left = units - index * kUnits;
      Sums<kRows, 1> sums;
      Clear(sums);
      Accumulate<Multiply, Panel, true>(block.activation + index * kUnits * Panel::kSteps * 4, block.activation_stride,
                                        panel + index * kUnits * Panel::kBytes, 0, left < kUnits ? left : kUnits, sums);
      AddScaled(block, 0, index, scales, sums, totals);
    }
    Store(block, 0, column, totals);
  }
}

template <typename Multiply, typename Panel, int kRows>
void NarrowBlock(const GemmBlock& block, int64_t units) {
  if constexpr (requires { Panel::kDepth; }) {  // K elements per Decode, said by panels that may have block scales
    if (block.scales_per_row > 1) return NarrowScaledBlock<Multiply, Panel, kRows>(block, units);
  }
  const std::byte* panel = block.panels;
  int64_t column = 0;
  if constexpr (kRows * Panel::kSteps <= 4) {  // more would not fit the registers
    for (; column + kPanelColumns < block.columns; column += 2 * kPanelColumns, panel += 2 * block.panel_bytes) {
      Sums<kRows, 2> sums;
      Clear(sums);
      Accumulate<Multiply, Panel, true>(block.activation, block.activation_stride, panel, block.panel_bytes, units,
                                        sums);
      Store(block, 0, column, sums);
    }
  }
  for (; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
    Sums<kRows, 1> sums;
    Clear(sums);
    Accumulate<Multiply, Panel, true>(block.activation, block.activation_stride, panel, block.panel_bytes, units, sums);
    Store(block, 0, column, sums);
  }
}

// A slice of one panel against the rows of the block.
struct Slice {
  const std::byte* panel;  // dense
  int64_t steps;
  size_t activation_offset;  // bytes into a row
  int64_t column;
  bool first;
  bool last;
  const float* weight_scale;  // [48] when the slice is a block with its own scale, or null
  int64_t scale_index;
};

template <typename Multiply, int kRows>
void SliceTile(const GemmBlock& block, const Slice& slice, int row) {
  float* parked = reinterpret_cast<float*>(block.scratch) + row * kPanelColumns;
  Sums<kRows, 1> sums;
  if (slice.first || slice.weight_scale != nullptr) {
    Clear(sums);
  } else {
    Load(parked, sums);
  }
  const std::byte* activation = block.activation + static_cast<size_t>(row) * block.activation_stride;
  Accumulate<Multiply, DensePanel, false>(activation + slice.activation_offset, block.activation_stride, slice.panel, 0,
                                          slice.steps, sums);
  if (slice.weight_scale != nullptr) {
    Sums<kRows, 1> totals;
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

template <typename Multiply>
void SliceRows(const GemmBlock& block, const Slice& slice) {
  int row = 0;
  for (; row + kTileRows <= block.rows; row += kTileRows) SliceTile<Multiply, kTileRows>(block, slice, row);
  switch (block.rows - row) {
    case 1:
      return SliceTile<Multiply, 1>(block, slice, row);
    case 2:
      return SliceTile<Multiply, 2>(block, slice, row);
    case 3:
      return SliceTile<Multiply, 3>(block, slice, row);
    case 4:
      return SliceTile<Multiply, 4>(block, slice, row);
    case 5:
      return SliceTile<Multiply, 5>(block, slice, row);
    case 6:
      return SliceTile<Multiply, 6>(block, slice, row);
    case 7:
      return SliceTile<Multiply, 7>(block, slice, row);
    default:
      return;
  }
}

// Precision: Multiply, Panel, kDecodes (whether a slice must be decoded), kStepDepth (K elements of a step) and
// kNarrowRows (the rows up to which decoding in registers pays).
template <typename Precision>
void WideBlock(const GemmBlock& block) {
  using Panel = typename Precision::Panel;
  static_assert(kScaleBlock / Precision::kStepDepth <= kSliceSteps);
  std::byte* decoded = block.scratch + kGemmSumBytes;
  const bool scaled = block.scales_per_row > 1;
  const int64_t steps = block.padded_depth / Precision::kStepDepth;
  const int64_t slice_steps = scaled ? kScaleBlock / Precision::kStepDepth : kSliceSteps;
  const std::byte* panel = block.panels;
  for (int64_t column = 0; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
    for (int64_t step = 0; step < steps; step += slice_steps) {
      const int64_t count = steps - step < slice_steps ? steps - step : slice_steps;
      const std::byte* at = panel + step / Panel::kSteps * Panel::kBytes;
      if constexpr (Precision::kDecodes) {
        for (int64_t unit = 0; unit < count / Panel::kSteps; ++unit) {
          __m512 weights[Panel::kSteps][kVectors];
          Panel::Decode(at + unit * Panel::kBytes, weights);
          std::byte* to = decoded + unit * Panel::kSteps * kStepBytes;
#pragma GCC unroll 4
          for (int s = 0; s < Panel::kSteps; ++s) {
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v) _mm512_store_ps(to + s * kStepBytes + v * 64, weights[s][v]);
          }
        }
        at = decoded;
      }
      const int64_t index = step / slice_steps;
      const float* scales =
          scaled ? block.weight_scale + column * block.scales_per_row + index * kPanelColumns : nullptr;
      const Slice slice{at,     count, static_cast<size_t>(step) * 4, column, step == 0, step + count == steps,
                        scales, index};
      SliceRows<typename Precision::Multiply>(block, slice);
    }
  }
}

template <typename Precision>
void GemmBlockOf(const GemmBlock& block) {
  using Multiply = typename Precision::Multiply;
  using Panel = typename Precision::Panel;
  const int64_t units = block.padded_depth / (Precision::kStepDepth * Panel::kSteps);
  if (block.rows > Precision::kNarrowRows) return WideBlock<Precision>(block);
  switch (block.rows) {
    case 1:
      return NarrowBlock<Multiply, Panel, 1>(block, units);
    case 2:
      return NarrowBlock<Multiply, Panel, 2>(block, units);
    case 3:
      return NarrowBlock<Multiply, Panel, 3>(block, units);
    case 4:
      return NarrowBlock<Multiply, Panel, 4>(block, units);
    default:
      break;
  }
  if constexpr (Precision::kNarrowRows >= 6) {
    if (block.rows == 5) return NarrowBlock<Multiply, Panel, 5>(block, units);
    if (block.rows == 6) return NarrowBlock<Multiply, Panel, 6>(block, units);
  }
  if constexpr (Precision::kNarrowRows >= 8) {
    if (block.rows == 7) return NarrowBlock<Multiply, Panel, 7>(block, units);
    if (block.rows == 8) return NarrowBlock<Multiply, Panel, 8>(block, units);
  }
}

}  // namespace dunlin::kernels::cpu::avx512
