// SPDX-License-Identifier: Apache-2.0
// The tile product of AMX for MeasureRoofs: six chains, as many as the tile registers hold beside two inputs.
#include "kernels/cpu/roofs/loops.h"
#include "kernels/cpu/simd/tiles_amx.h"

namespace dunlin::kernels::cpu {

float AmxBf16Rounds(int64_t rounds) {
  amx::ConfigureTiles(amx::kGroupRows);
  alignas(64) float tile[16 * 16] = {};
  for (float& pair : tile) pair = 0.0078125F;
  amx::TileFence();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_loadd(6, tile, 64);
  _tile_loadd(7, tile, 64);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  float total = 0.0F;
  _tile_stored(0, tile, 64);
  amx::TileFence();
  total += tile[0];
  _tile_stored(5, tile, 64);
  amx::TileFence();
  total += tile[0];
  _tile_release();
  return total;
}

}  // namespace dunlin::kernels::cpu
