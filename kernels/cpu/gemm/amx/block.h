// SPDX-License-Identifier: Apache-2.0
// A block of rows by panels through the tile registers, for BF16 and FP8 weights.
//
// Panel by panel, K in slices that stay in the L2 cache. A slice is multiplied by the block's rows in groups of 32 (the
// last ones of up to 16), which meanwhile prefetch the next slice, and with the last slice the lines of their output.
// Sums are spilled to scratch between slices; a group's final sums are stored at once, while they are in the L1 cache.
// A sum is one chain over the steps of 32 K, ascending, for any number of rows; the last step is padded with zeros.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/vector/tile.h"
#include "kernels/cpu/simd/lanes_avx512.h"
#include "kernels/cpu/simd/tiles_amx.h"

namespace dunlin::kernels::cpu::amx {

inline constexpr size_t kPairRowBytes = kPanelColumns * 2 * 2;        // a pair of K of a dense panel
inline constexpr size_t kStepBytes = kTileDepth / 2 * kPairRowBytes;  // of a dense panel
inline constexpr size_t kSumRowBytes = kPanelColumns * sizeof(float);

inline constexpr int64_t kSliceDepth = 1024;  // 96 KiB; spilled sums cost the time of 3 to 5 steps of 32 K
// Every third line of the next slice is prefetched: the hardware prefetcher fetches those between, without occupying
// the L1 cache's fill buffers, which tile loads from L2 need.
inline constexpr size_t kPrefetchStride = 3 * 64;
inline constexpr size_t kDecodedBytes = kSliceDepth / kTileDepth * kStepBytes;
inline constexpr size_t kTailBytes = kStepBytes;
// With block scales a slice is kScaleBlock deep: the sums of the group's block follow its decoded panel.
inline constexpr size_t kBlockSumOffset = kScaleBlock / kTileDepth * kStepBytes;
static_assert(kBlockSumOffset + kGroupRows * kSumRowBytes <= kDecodedBytes);
// After the decoded panel: the last step padded with zeros, then a group's last sums.
inline constexpr size_t kTailOffset = kGemmSumBytes + kDecodedBytes;
inline constexpr size_t kLastSumOffset = kTailOffset + kTailBytes;
static_assert(kLastSumOffset + kGroupRows * kSumRowBytes <= kScratchBytes);
static_assert(kGroupRows * kTileRowBytes <= kTailBytes);

using RowSums = simd::Sums<avx512::Lanes, 1, simd::kPanelVectors>;

template <bool kBoth>
DUNLIN_INLINE void ClearSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  if constexpr (kBoth) {
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
  }
}

// sums: [rows][48] floats.
template <bool kBoth>
DUNLIN_INLINE void LoadSums(const float* sums) {
  _tile_loadd(0, sums, kSumRowBytes);
  _tile_loadd(1, sums + 16, kSumRowBytes);
  _tile_loadd(2, sums + 32, kSumRowBytes);
  if constexpr (kBoth) {
    const float* high = sums + kTileRows * kPanelColumns;
    _tile_loadd(3, high, kSumRowBytes);
    _tile_loadd(4, high + 16, kSumRowBytes);
    _tile_loadd(5, high + 32, kSumRowBytes);
  }
}

template <bool kBoth>
DUNLIN_INLINE void StoreSums(float* sums) {
  _tile_stored(0, sums, kSumRowBytes);
  _tile_stored(1, sums + 16, kSumRowBytes);
  _tile_stored(2, sums + 32, kSumRowBytes);
  if constexpr (kBoth) {
    float* high = sums + kTileRows * kPanelColumns;
    _tile_stored(3, high, kSumRowBytes);
    _tile_stored(4, high + 16, kSumRowBytes);
    _tile_stored(5, high + 32, kSumRowBytes);
  }
}

// One step of 32 K. rows: the group's first, at this K, `stride` bytes apart; panel: dense, at this K.
template <bool kBoth>
DUNLIN_INLINE void MultiplyStep(const std::byte* rows, size_t stride, const std::byte* panel) {
  _tile_loadd(6, rows, stride);
  if constexpr (kBoth) {
    _tile_loadd(7, panel, kPairRowBytes);
    _tile_dpbf16ps(0, 6, 7);
    _tile_loadd(7, panel + 64, kPairRowBytes);
    _tile_dpbf16ps(1, 6, 7);
    _tile_loadd(7, panel + 128, kPairRowBytes);
    _tile_dpbf16ps(2, 6, 7);
    _tile_loadd(6, rows + kTileRows * stride, stride);
    _tile_dpbf16ps(5, 6, 7);
    _tile_loadd(7, panel, kPairRowBytes);
    _tile_dpbf16ps(3, 6, 7);
    _tile_loadd(7, panel + 64, kPairRowBytes);
    _tile_dpbf16ps(4, 6, 7);
  } else {
    _tile_loadd(3, panel, kPairRowBytes);
    _tile_dpbf16ps(0, 6, 3);
    _tile_loadd(4, panel + 64, kPairRowBytes);
    _tile_dpbf16ps(1, 6, 4);
    _tile_loadd(5, panel + 128, kPairRowBytes);
    _tile_dpbf16ps(2, 6, 5);
  }
}

// A slice of one panel.
struct Slice {
  const std::byte* panel;  // dense, BF16 pairs
  const std::byte* next;   // the next slice as it lies in memory; may point past the weight
  size_t next_step_bytes;  // bytes of `next` per step
  int64_t depth;           // even
  int64_t column;          // of the block, the panel's first
  size_t activation_offset;
  bool first;
  bool last;
  const float* weight_scale;  // [48] when the slice is a block with its own scale, or null
  int64_t scale_index;
};

// The last step of a slice that is no multiple of 32, with zeros after its K.
template <bool kBoth>
void MultiplyTail(const std::byte* rows, size_t stride, int num_rows, const std::byte* panel, int64_t depth,
                  std::byte* scratch) {
  const auto row_bytes = static_cast<size_t>(depth) * sizeof(uint16_t);
  alignas(64) std::byte padded[kGroupRows * kTileRowBytes];
  std::memset(padded, 0, static_cast<size_t>(num_rows) * kTileRowBytes);
  for (int r = 0; r < num_rows; ++r) {
    std::memcpy(padded + static_cast<size_t>(r) * kTileRowBytes, rows + static_cast<size_t>(r) * stride, row_bytes);
  }
  const size_t panel_bytes = static_cast<size_t>(depth) / 2 * kPairRowBytes;
  std::memcpy(scratch, panel, panel_bytes);
  std::memset(scratch + panel_bytes, 0, kStepBytes - panel_bytes);
  TileFence();
  MultiplyStep<kBoth>(padded, kTileRowBytes, scratch);
}

// Scales the sums of a block of K and adds them to the spilled totals.
inline void AddBlock(const GemmBlock& block, const Slice& slice, int row, int num_rows, const float* sums) {
  TileFence();
  float* spilled = reinterpret_cast<float*>(block.scratch) + row * kPanelColumns;
  for (int r = 0; r < num_rows; ++r) {
    RowSums one;
    RowSums total;
    simd::Load(sums + r * kPanelColumns, one);
    if (slice.first) {
      simd::Clear(total);
    } else {
      simd::Load(spilled + r * kPanelColumns, total);
    }
    simd::AddScaled(block, row + r, slice.scale_index, slice.weight_scale, one, total);
    simd::Spill(total, spilled + r * kPanelColumns);
  }
  TileFence();
}

// Output rows [row, row + num_rows) of the panel at `column` from their sums.
inline void StoreRows(const GemmBlock& block, int row, int num_rows, int64_t column, const float* sums) {
  TileFence();
  for (int r = 0; r < num_rows; ++r) {
    RowSums one;
    simd::Load(sums + r * kPanelColumns, one);
    simd::Store(block, row + r, column, one);
  }
  TileFence();
}

// What a group prefetches while it multiplies: its share of each step of the next slice, so that all groups together
// prefetch the whole, and with the last slice one row of its output per step.
struct PrefetchPlan {
  const std::byte* next;
  size_t share;       // bytes of a step of `next`
  size_t step_bytes;  // of `next`
  const float* out;
  int64_t out_stride;
  int out_rows;  // that remain
};

DUNLIN_INLINE PrefetchPlan PrefetchPlanOf(const GemmBlock& block, const Slice& slice, int row, int num_rows) {
  const auto groups = static_cast<size_t>((block.rows + kGroupRows - 1) / kGroupRows);
  const size_t share = (slice.next_step_bytes / 64 + groups - 1) / groups * 64;
  return {.next = slice.next + static_cast<size_t>(row / kGroupRows) * share,
          .share = share,
          .step_bytes = slice.next_step_bytes,
          .out = block.out + row * block.out_stride + slice.column,
          .out_stride = block.out_stride,
          .out_rows = slice.last ? num_rows : 0};
}

DUNLIN_INLINE void Prefetch(PrefetchPlan& plan) {
  for (size_t line = 0; line < plan.share; line += kPrefetchStride) _mm_prefetch(plan.next + line, _MM_HINT_T1);
  plan.next += plan.step_bytes;
  if (plan.out_rows == 0) return;
#pragma GCC unroll 3
  for (int line = 0; line < 3; ++line) __builtin_prefetch(plan.out + line * 16, /*rw=*/1, /*locality=*/2);
  plan.out += plan.out_stride;
  --plan.out_rows;
}

// Rows [row, row + num_rows) of the block; kBoth: 32 of them, otherwise 1..16.
template <bool kBoth>
void SliceGroup(const GemmBlock& block, const Slice& slice, int row, int num_rows) {
  const bool scaled = slice.weight_scale != nullptr;
  float* spilled = reinterpret_cast<float*>(block.scratch) + row * kPanelColumns;
  float* sums = scaled ? reinterpret_cast<float*>(block.scratch + kGemmSumBytes + kBlockSumOffset) : spilled;
  const std::byte* rows =
      block.activation + static_cast<size_t>(row) * block.activation_stride + slice.activation_offset;
  if (slice.first || scaled) {
    ClearSums<kBoth>();
  } else {
    LoadSums<kBoth>(sums);
  }
  const int64_t steps = slice.depth / kTileDepth;
  PrefetchPlan plan = PrefetchPlanOf(block, slice, row, num_rows);
  for (int64_t step = 0; step < steps; ++step) {
    Prefetch(plan);
    MultiplyStep<kBoth>(rows + static_cast<size_t>(step) * kTileRowBytes, block.activation_stride,
                        slice.panel + static_cast<size_t>(step) * kStepBytes);
  }
  if (slice.depth % kTileDepth != 0) {
    MultiplyTail<kBoth>(rows + static_cast<size_t>(steps) * kTileRowBytes, block.activation_stride, num_rows,
                        slice.panel + static_cast<size_t>(steps) * kStepBytes, slice.depth % kTileDepth,
                        block.scratch + kTailOffset);
  }
  if (slice.last && !scaled) sums = reinterpret_cast<float*>(block.scratch + kLastSumOffset);
  StoreSums<kBoth>(sums);
  if (scaled) {
    AddBlock(block, slice, row, num_rows, sums);
    sums = spilled;
  }
  if (slice.last) StoreRows(block, row, num_rows, slice.column, sums);
}

inline void SliceBlock(const GemmBlock& block, const Slice& slice) {
  int row = 0;
  if (block.rows >= kGroupRows) {
    ConfigureTiles(kGroupRows);
    for (; row + kGroupRows <= block.rows; row += kGroupRows) SliceGroup<true>(block, slice, row, kGroupRows);
  }
  while (row < block.rows) {
    const int rows = std::min(kTileRows, block.rows - row);
    ConfigureTiles(rows);
    SliceGroup<false>(block, slice, row, rows);
    row += rows;
  }
  TileFence();
}

// Up to 16 rows: the sums stay in the tiles over the whole of K, and a panel is decoded step by step, because a whole
// decoded slice would be evicted from the L1 cache before the few multiplies that read it.
template <typename Weights>
void SmallMBlock(const GemmBlock& block) {
  float* sums = reinterpret_cast<float*>(block.scratch);
  std::byte* decoded = block.scratch + kGemmSumBytes;
  const int64_t whole = block.padded_depth / kTileDepth * kTileDepth;
  const std::byte* panel = block.panels;
  ConfigureTiles(block.rows);
  for (int64_t column = 0; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
    ClearSums<false>();
    for (int64_t k = 0; k < whole; k += kTileDepth) {
      const std::byte* dense = Weights::Dense(panel, k, kTileDepth, decoded + k / kTileDepth % 4 * kStepBytes);
      TileFence();
      MultiplyStep<false>(block.activation + k * 2, block.activation_stride, dense);
    }
    if (whole != block.padded_depth) {
      const int64_t depth = block.padded_depth - whole;
      MultiplyTail<false>(block.activation + whole * 2, block.activation_stride, block.rows,
                          Weights::Dense(panel, whole, depth, decoded), depth, block.scratch + kTailOffset);
    }
    StoreSums<false>(sums);
    StoreRows(block, 0, block.rows, column, sums);
  }
  _tile_release();
}

// Weights provides Dense(panel, first_k, depth, scratch), which decodes a slice of a panel or returns it where it is
// dense already, and kStepBytes, the bytes of a step of 32 K in memory.
template <typename Weights>
void GemmBlockOf(const GemmBlock& block) {
  const bool scaled = block.scales_per_row > 1;
  if (block.rows <= kTileRows && !scaled) return SmallMBlock<Weights>(block);
  const int64_t slice_depth = scaled ? kScaleBlock : kSliceDepth;
  const std::byte* panel = block.panels;
  for (int64_t column = 0; column < block.columns; column += kPanelColumns, panel += block.panel_bytes) {
    for (int64_t k = 0; k < block.padded_depth; k += slice_depth) {
      const int64_t depth = std::min(slice_depth, block.padded_depth - k);
      const int64_t index = k / slice_depth;
      const std::byte* dense = Weights::Dense(panel, k, depth, block.scratch + kGemmSumBytes);
      const float* scales =
          scaled ? block.weight_scale + column * block.scales_per_row + index * kPanelColumns : nullptr;
      constexpr size_t kRawStepBytes = Weights::kStepBytes;
      SliceBlock(block, {.panel = dense,
                         .next = panel + static_cast<size_t>((k + depth) / kTileDepth) * kRawStepBytes,
                         .next_step_bytes = kRawStepBytes,
                         .depth = depth,
                         .column = column,
                         .activation_offset = static_cast<size_t>(k) * sizeof(uint16_t),
                         .first = k == 0,
                         .last = k + depth == block.padded_depth,
                         .weight_scale = scales,
                         .scale_index = index});
    }
  }
  _tile_release();
}

}  // namespace dunlin::kernels::cpu::amx
