// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM's kernel on groups of rows for one operand type. Instantiations: kGroupedTileShapes, of rows or of
// gates.
#pragma once

#include "kernels/cuda/gemm/sm90/grouped_wgmma_kernels.h"
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

template <typename Tile, bool kPaired>
using GroupedTileOf = std::conditional_t<kPaired, PairedTile<Tile>, Tile>;

template <typename Format, bool kPaired = false>
void LaunchGroupedWgmma(const GroupedTileCall& call, TensorElement element, Stream stream) {
  WithGroupedTile<Format>(GroupedTileShapeOf(call), [&](auto tile) {
    using Tile = GroupedTileOf<decltype(tile), kPaired>;
    WgmmaCall planned;
    const bool encoded = WgmmaCallOf(call, element, Tile::kRows, Tile::kColumns, &planned) == cudaSuccess;
    const auto blocks =
        encoded ? static_cast<unsigned>(WgmmaBlocksOf(planned, call.tile.multiprocessors * Tile::kBlocks)) : 0U;
    LaunchKernel(WgmmaGemm<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, Tile::kSwapped && call.tile.overlaps,
                 stream, planned);
  });
}

template <typename Format, bool kPaired = false>
int PrepareGroupedWgmma() {
  for (int32_t shape = 0; shape < kGroupedTileShapes; ++shape) {
    const cudaError_t error = WithGroupedTile<Format>(static_cast<GroupedTileShape>(shape), [](auto tile) {
      using Tile = GroupedTileOf<decltype(tile), kPaired>;
      return cudaFuncSetAttribute(WgmmaGemm<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
