// SPDX-License-Identifier: Apache-2.0
// Launchers of the wgmma GEMM on groups of rows, by operand type, as those of wgmma_kernels.h.
#pragma once

#include "kernels/cuda/gemm/sm90/wgmma_kernels.h"

namespace dunlin::kernels::cuda {

template <typename Format, int kRows>
using GroupedSwapped = GroupedTile<SwappedTile<Format, kRows, 64, kGroupBytes>>;

// run(tile) with a value of the shape's tile type.
template <typename Format, typename Run>
auto WithGroupedTile(GroupedTileShape shape, const Run& run) {
  switch (shape) {
    case GroupedTileShape::k128x256:
      return run(GroupedTile<Wgmma128x256<Format>>());
    case GroupedTileShape::k128x128:
      return run(GroupedTile<Wgmma128x128<Format>>());
    case GroupedTileShape::k64x128:
      return run(GroupedTile<Wgmma64x128<Format>>());
    case GroupedTileShape::kSwapped64x64:
      return run(GroupedSwapped<Format, 64>());
    case GroupedTileShape::kSwapped32x64:
      return run(GroupedSwapped<Format, 32>());
    case GroupedTileShape::kSwapped16x64:
      return run(GroupedSwapped<Format, 16>());
    case GroupedTileShape::kSwapped8x64:
      break;
  }
  return run(GroupedSwapped<Format, 8>());
}

// The call's tile has multiprocessors. With call.tile.paired: gates of 16 bits.
void LaunchGroupedWgmmaBf16(const GroupedTileCall& call, Stream stream);
void LaunchGroupedWgmmaFp16(const GroupedTileCall& call, Stream stream);
void LaunchGroupedWgmmaFp8(const GroupedTileCall& call, Stream stream);
void LaunchGroupedWgmmaFp8Blocks(const GroupedTileCall& call, Stream stream);
void LaunchGroupedGatesBf16(const GroupedTileCall& call, Stream stream);
void LaunchGroupedGatesFp16(const GroupedTileCall& call, Stream stream);

// As those of wgmma_kernels.h.
int PrepareGroupedWgmmaBf16();
int PrepareGroupedWgmmaFp16();
int PrepareGroupedWgmmaFp8();
int PrepareGroupedWgmmaFp8Blocks();
int PrepareGroupedGatesBf16();
int PrepareGroupedGatesFp16();

}  // namespace dunlin::kernels::cuda
