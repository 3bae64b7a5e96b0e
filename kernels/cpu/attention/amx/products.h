// SPDX-License-Identifier: Apache-2.0
// The two products of a tile through the tile registers: scores Q K^T and values P V, of BF16 pages.
//
// Registers 0..3 are sums, 4 and 5 rows (queries or P), 6 and 7 pages. A page's keys are weight tiles as they lie: 16
// pairs of dimensions x 16 keys. Its values are half as deep, so that those of two pages are copied behind one another.
// A multiply adds 32 products to a sum in an order of the processor's own (all even ones, all odd ones, then both) that
// depends on neither the other rows nor on how many there are. Included by the AMX file only.
// Source: Intel SDM volume 2, TDPBF16PS.
#pragma once

#include <initializer_list>

#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/simd/tiles_amx.h"

namespace dunlin::kernels::cpu::amx {

inline constexpr int kPageTokens = 16;  // of a BF16 page
inline constexpr size_t kTileBytes = kTileRows * kTileRowBytes;
inline constexpr int kPanelDims = 64;  // of values that are copied at a time
inline constexpr int kPanelTiles = kPanelDims / 16;
inline constexpr int kTileSteps = kTileKeys / kTileDepth;  // multiplies along the keys of a tile
static_assert(kTileSteps * kPanelTiles * kTileBytes <= WidePanelFloats(1) * sizeof(float));

// Rows of a group: high = 0 for one register's rows.
struct RowGroup {
  int row;
  int low;   // 1..16
  int high;  // 0..16
};

DUNLIN_INLINE void ConfigureGroup(int low, int high) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kTileRowBytes;
    config.rows[tile] = kTileRows;
  }
  for (const int tile : {0, 1, 4}) config.rows[tile] = static_cast<uint8_t>(low);
  for (const int tile : {2, 3, 5}) config.rows[tile] = static_cast<uint8_t>(high == 0 ? low : high);
  TileFence();
  _tile_loadconfig(&config);
}

// Calls body(group) for groups of 32 rows and the rest, the tiles configured for it.
template <typename Body>
DUNLIN_INLINE void ForGroups(int rows, const Body& body) {
  int row = 0;
  if (rows >= kGroupRows) ConfigureGroup(kTileRows, kTileRows);
  for (; row + kGroupRows <= rows; row += kGroupRows) body(RowGroup{row, kTileRows, kTileRows});
  const int rest = rows - row;
  if (rest > 0) {
    const RowGroup group{row, rest < kTileRows ? rest : kTileRows, rest > kTileRows ? rest - kTileRows : 0};
    ConfigureGroup(group.low, group.high);
    body(group);
  }
  TileFence();
}

// Scores of a group for the keys of pages `page` and page + 1.
template <bool kHigh>
DUNLIN_INLINE void ScorePages(const ScoreArgs& args, const RowGroup& group, int page) {
  const std::byte* low = args.q + group.row * args.q_stride;
  const std::byte* high = low + kTileRows * args.q_stride;
  const auto stride = static_cast<size_t>(args.q_stride);
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kHigh) {
    _tile_zero(2);
    _tile_zero(3);
  }
  const int64_t steps = args.head_dim / kTileDepth;
  for (int64_t step = 0; step < steps; ++step) {
    const size_t along = static_cast<size_t>(step) * kTileRowBytes;
    const size_t offset = static_cast<size_t>(step) * kTileBytes;
    _tile_loadd(4, low + along, stride);
    _tile_loadd(6, args.keys[page] + offset, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, args.keys[page + 1] + offset, kTileRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kHigh) {
      _tile_loadd(5, high + along, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  float* s = args.s + group.row * args.s_stride + page * kPageTokens;
  const auto s_bytes = static_cast<size_t>(args.s_stride) * sizeof(float);
  _tile_stored(0, s, s_bytes);
  _tile_stored(1, s + kPageTokens, s_bytes);
  if constexpr (kHigh) {
    float* below = s + kTileRows * args.s_stride;
    _tile_stored(2, below, s_bytes);
    _tile_stored(3, below + kPageTokens, s_bytes);
  }
}

// O of a group for 32 dimensions of a panel from tile `column` on; the last tile of an odd number stands alone.
// values: [step][kPanelTiles] tiles. o: at the dimensions, times alpha already.
template <bool kHigh, bool kPair>
DUNLIN_INLINE void AddProducts(const std::byte* p, size_t p_bytes, const std::byte* values, int first_step,
                               int end_step, float* o, size_t o_bytes) {
  float* below = o + kTileRows * o_bytes / sizeof(float);
  _tile_loadd(0, o, o_bytes);
  if constexpr (kPair) _tile_loadd(1, o + 16, o_bytes);
  if constexpr (kHigh) {
    _tile_loadd(2, below, o_bytes);
    if constexpr (kPair) _tile_loadd(3, below + 16, o_bytes);
  }
  for (int step = first_step; step < end_step; ++step) {
    const std::byte* tiles = values + static_cast<size_t>(step) * kPanelTiles * kTileBytes;
    const std::byte* rows = p + static_cast<size_t>(step) * kTileRowBytes;
    _tile_loadd(4, rows, p_bytes);
    _tile_loadd(6, tiles, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kPair) {
      _tile_loadd(7, tiles + kTileBytes, kTileRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kHigh) {
      _tile_loadd(5, rows + kTileRows * p_bytes, p_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kPair) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, o, o_bytes);
  if constexpr (kPair) _tile_stored(1, o + 16, o_bytes);
  if constexpr (kHigh) {
    _tile_stored(2, below, o_bytes);
    if constexpr (kPair) _tile_stored(3, below + 16, o_bytes);
  }
}

}  // namespace dunlin::kernels::cpu::amx
