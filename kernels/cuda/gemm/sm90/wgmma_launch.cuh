// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM's kernel for one operand type. Instantiations: kWgmmaTileShapes, of rows or of paired outputs.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/sm90/wgmma_block.h"
#include "kernels/cuda/gemm/sm90/wgmma_kernels.h"
#include "kernels/cuda/sm90/device_block.h"
#include "kernels/cuda/sm90/launch.cuh"

namespace dunlin::kernels::cuda {

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks) WgmmaGemm(const __grid_constant__ WgmmaCall call) {
  RunWgmmaGemm<Tile>(DeviceBlock(), call);
}

// kPaired: TileCall::paired says what becomes of the sums.
template <typename Format, bool kPaired = false>
void LaunchWgmma(const TileCall& call, TensorElement element, Stream stream) {
  const WgmmaTileShape shape = WgmmaTileShapeOf(call);
  WithWgmmaTile<Format>(shape, [&](auto tile) {
    using Tile = std::conditional_t<kPaired, PairedTile<decltype(tile)>, decltype(tile)>;
    WgmmaCall planned;
    const bool encoded = WgmmaCallOf(call, element, Tile::kRows, Tile::kColumns, &planned) == cudaSuccess;
    const auto blocks =
        encoded ? static_cast<unsigned>(WgmmaBlocksOf(planned, call.multiprocessors * Tile::kBlocks)) : 0U;
    LaunchKernel(WgmmaGemm<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, Tile::kSwapped && call.overlaps, stream,
                 planned);
  });
}

template <typename Format, bool kPaired = false>
int PrepareWgmma() {
  for (int32_t shape = 0; shape < kWgmmaTileShapes; ++shape) {
    const cudaError_t error = WithWgmmaTile<Format>(static_cast<WgmmaTileShape>(shape), [](auto tile) {
      using Tile = std::conditional_t<kPaired, PairedTile<decltype(tile)>, decltype(tile)>;
      return cudaFuncSetAttribute(WgmmaGemm<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
