// SPDX-License-Identifier: Apache-2.0
// The tile GEMM's kernel for one operand type, by groups of 16 rows: 1, 2 and, without scales per 128 codes, 4.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/sm80/tile_block.h"
#include "kernels/cuda/gemm/sm80/tile_kernels.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"

namespace dunlin::kernels::cuda {

// Blocks per SM: limited by registers, 32 per thread and group for the sums, and by shared memory, 40 KB of sm_80's 164
// KB with one group and 64 KB with four.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1200
inline constexpr int kTwoScaledGroups = 2;  // with three, registers are spilled
#else
inline constexpr int kTwoScaledGroups = 3;
#endif
template <int kGroups, bool kScaled>
inline constexpr int kTileGemmBlocks = kGroups == 1   ? 4
                                       : kGroups == 2 ? (kScaled ? kTwoScaledGroups : 3)
                                                      : 2;

template <typename Operand, int kGroups, bool kScaled>
__global__ void __launch_bounds__(kBlockThreads, kTileGemmBlocks<kGroups, kScaled>)
    TileGemm(const __grid_constant__ TileCall call) {
  extern __shared__ __align__(16) unsigned char shared[];
  const TilePlace place = TilePlaceOf(call, kGroups * kGroupRows, blockIdx.x);
  RunTileGemm<Operand, kGroups, kScaled>(call, place, shared);
}

template <typename Operand, int kGroups, bool kScaled>
void LaunchTileGroups(const TileCall& call, Stream stream) {
  const auto blocks = static_cast<unsigned>(TileBlocksOf(call, kGroups));
  TileGemm<Operand, kGroups, kScaled><<<blocks, kBlockThreads, GemmMemory<kGroups, kScaled>::kBytes, stream>>>(call);
}

template <typename Operand, bool kScaled>
void LaunchTiles(const TileCall& call, Stream stream) {
  const int groups = GroupsOf(call);
  if (groups == 1) return LaunchTileGroups<Operand, 1, kScaled>(call, stream);
  if (groups == 2) return LaunchTileGroups<Operand, 2, kScaled>(call, stream);
  if constexpr (!kScaled) LaunchTileGroups<Operand, 4, kScaled>(call, stream);
}

template <typename Operand, int kGroups, bool kScaled>
int PrepareTileGroups() {
  return cudaFuncSetAttribute(TileGemm<Operand, kGroups, kScaled>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              GemmMemory<kGroups, kScaled>::kBytes);
}

template <typename Operand, bool kScaled>
int PrepareTiles() {
  if (const int error = PrepareTileGroups<Operand, 1, kScaled>(); error != cudaSuccess) return error;
  if (const int error = PrepareTileGroups<Operand, 2, kScaled>(); error != cudaSuccess) return error;
  if constexpr (!kScaled) return PrepareTileGroups<Operand, 4, kScaled>();
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
