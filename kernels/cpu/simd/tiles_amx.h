// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX: their configuration, and the sums of one panel for up to 32 rows.
//
// Registers 0..2 are the sums of rows 0..15 for the panel's three vectors, 3..5 those of rows 16..31, 6 is a tile of
// activations (16 rows x 32 K), 7 one of weights (16 pairs of K x 16 columns: a dense panel's own bytes, 192 apart).
// A multiply adds 32 products to each sum in an order of the processor's own that does not depend on how many rows a
// tile has. Translation units of this folder only.
// Source: Intel SDM volume 1, chapter 18; volume 2, TDPBF16PS.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::amx {

inline constexpr int kTileRows = 16;
inline constexpr int kGroupRows = 2 * kTileRows;
inline constexpr int64_t kTileDepth = 32;    // K of one multiply
inline constexpr size_t kTileRowBytes = 64;  // 32 BF16 or 16 floats

// Palette 1 of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// GCC 12's tile intrinsics do not tell the compiler which memory they read or write. This orders them against ordinary
// loads and stores.
DUNLIN_INLINE void TileFence() {
  __asm__ volatile("" ::: "memory");
}

// For groups of `rows` rows: 1..16, or 32. Clears every tile. A multiply needs as many rows of activations as of sums,
// so that 17..31 rows are two groups.
DUNLIN_INLINE void ConfigureTiles(int rows) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kTileRowBytes;
    const bool rows_of_group = tile < 3 || tile == 6;
    config.rows[tile] = static_cast<uint8_t>(rows_of_group && rows < kTileRows ? rows : kTileRows);
  }
  TileFence();
  _tile_loadconfig(&config);
}

}  // namespace dunlin::kernels::cpu::amx
