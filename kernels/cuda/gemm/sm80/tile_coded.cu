// SPDX-License-Identifier: Apache-2.0
// The tile GEMM on integer codes, and their expansion to a BF16 matrix. Instantiations: 1, 2 and 4 groups, and one.
#include "kernels/cuda/gemm/sm80/coded_block.h"
#include "kernels/cuda/gemm/sm80/tile_launch.cuh"

namespace dunlin::kernels::cuda {
namespace {

template <int kGroups>
__global__ void __launch_bounds__(kBlockThreads, kTileGemmBlocks<kGroups, false>)
    CodedGemm(const __grid_constant__ TileCall call) {
  extern __shared__ __align__(16) unsigned char shared[];
  RunCodedGemm<kGroups>(call, TilePlaceOf(call, kGroups * kGroupRows, blockIdx.x), shared);
}

template <int kGroups>
void Launch(const TileCall& call, Stream stream) {
  const auto blocks = static_cast<unsigned>(TileBlocksOf(call, kGroups));
  CodedGemm<kGroups><<<blocks, kBlockThreads, CodedMemory<kGroups>::kBytes, stream>>>(call);
}

template <int kGroups>
int Prepare() {
  return cudaFuncSetAttribute(CodedGemm<kGroups>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              CodedMemory<kGroups>::kBytes);
}

// 256 threads: 128 rows of a tile.
constexpr unsigned kExpandThreads = 256;

__global__ void __launch_bounds__(kExpandThreads, 4) ExpandCodes(const __grid_constant__ ExpandCall call) {
  const int64_t index = int64_t{blockIdx.x} * kExpandThreads + threadIdx.x;
  if (index < call.halves()) ExpandHalfTile(call, index);
}

}  // namespace

void LaunchTilesCoded(const TileCall& call, Stream stream) {
  const int groups = GroupsOf(call);
  if (groups == 1) return Launch<1>(call, stream);
  if (groups == 2) return Launch<2>(call, stream);
  Launch<4>(call, stream);
}

int PrepareTilesCoded() {
  for (const auto prepare : {Prepare<1>, Prepare<2>, Prepare<4>}) {
    if (const int error = prepare(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

void LaunchExpandCodes(const ExpandCall& call, Stream stream) {
  const auto blocks = static_cast<unsigned>((call.halves() + kExpandThreads - 1) / kExpandThreads);
  ExpandCodes<<<blocks, kExpandThreads, 0, stream>>>(call);
}

}  // namespace dunlin::kernels::cuda
