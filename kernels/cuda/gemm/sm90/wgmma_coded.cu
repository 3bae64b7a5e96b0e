// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on integer codes. Instantiations: 8, 16, 32 and 64 rows.
#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/sm90/coded_wgmma_block.h"
#include "kernels/cuda/gemm/sm90/wgmma_kernels.h"
#include "kernels/cuda/sm90/device_block.h"
#include "kernels/cuda/sm90/launch.cuh"

namespace dunlin::kernels::cuda {
namespace {

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks) CodedWgmma(const __grid_constant__ WgmmaCall call) {
  RunCodedWgmma<Tile>(DeviceBlock(), call);
}

}  // namespace

void LaunchWgmmaCoded(const TileCall& call, Stream stream) {
  WithCodedTile(CodedTileRowsOf(call), [&](auto tile) {
    using Tile = decltype(tile);
    WgmmaCall planned;
    const bool encoded = WgmmaCallOf(call, TensorElement::kBf16, Tile::kRows, Tile::kColumns, &planned) == cudaSuccess;
    const auto blocks =
        encoded ? static_cast<unsigned>(WgmmaBlocksOf(planned, call.multiprocessors * Tile::kBlocks)) : 0U;
    LaunchKernel(CodedWgmma<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, call.overlaps, stream, planned);
  });
}

int PrepareWgmmaCoded() {
  for (const int32_t rows : kCodedTileRows) {
    const cudaError_t error = WithCodedTile(rows, [](auto tile) {
      using Tile = decltype(tile);
      return cudaFuncSetAttribute(CodedWgmma<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
