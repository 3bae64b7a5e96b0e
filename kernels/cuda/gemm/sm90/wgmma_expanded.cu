// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on integer codes that are expanded in shared memory. Instantiations: the tiles of WithExpandedTile and
// WithGroupedExpandedTile.
#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/sm90/coded_shapes.h"
#include "kernels/cuda/gemm/sm90/expanded_wgmma_block.h"
#include "kernels/cuda/sm90/device_block.h"
#include "kernels/cuda/sm90/launch.cuh"

namespace dunlin::kernels::cuda {
namespace {

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks) ExpandedWgmma(const __grid_constant__ WgmmaCall call) {
  RunExpandedWgmma<Tile>(DeviceBlock(), call);
}

// tile: call, or that of a group.
template <typename Tile, typename Call>
void LaunchExpandedTile(const Call& call, const TileCall& tile, Stream stream) {
  WgmmaCall planned;
  const bool encoded = WgmmaCallOf(call, TensorElement::kBf16, Tile::kRows, Tile::kColumns, &planned) == cudaSuccess;
  const auto blocks =
      encoded ? static_cast<unsigned>(WgmmaBlocksOf(planned, tile.multiprocessors * Tile::kBlocks)) : 0U;
  LaunchKernel(ExpandedWgmma<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, Tile::kSwapped && tile.overlaps, stream,
               planned);
}

template <typename Tile>
cudaError_t PrepareExpandedTile() {
  return cudaFuncSetAttribute(ExpandedWgmma<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
}

}  // namespace

void LaunchWgmmaExpanded(const TileCall& call, Stream stream) {
  WithExpandedTile(CodedShapeOf(call), [&](auto tile) { LaunchExpandedTile<decltype(tile)>(call, call, stream); });
}

void LaunchGroupedWgmmaCodes(const GroupedTileCall& call, Stream stream) {
  WithGroupedExpandedTile(GroupedCodedShapeOf(call),
                          [&](auto tile) { LaunchExpandedTile<decltype(tile)>(call, call.tile, stream); });
}

int PrepareWgmmaExpanded() {
  for (auto shape = static_cast<int32_t>(CodedShape::k8x16); shape < kCodedShapes; ++shape) {
    const cudaError_t error = WithExpandedTile(static_cast<CodedShape>(shape),
                                               [](auto tile) { return PrepareExpandedTile<decltype(tile)>(); });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

int PrepareGroupedWgmmaCodes() {
  for (int32_t shape = 0; shape < kGroupedCodedShapes; ++shape) {
    const cudaError_t error = WithGroupedExpandedTile(static_cast<GroupedCodedShape>(shape),
                                                      [](auto tile) { return PrepareExpandedTile<decltype(tile)>(); });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
