// SPDX-License-Identifier: Apache-2.0
// The second pass of a tile GEMM whose K is divided: four outputs per thread.
#include "kernels/cuda/gemm/sm80/tile_kernels.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kMergeThreads = 128;
constexpr int64_t kMergeColumns = 4 * kMergeThreads;

__global__ void __launch_bounds__(kMergeThreads) MergeTileSlices(const __grid_constant__ TileCall call) {
  const int64_t column = blockIdx.x * kMergeColumns + threadIdx.x * 4;
  if (column < call.columns) MergeSlices(call, blockIdx.y, column);
}

}  // namespace

void LaunchMergeSlices(const TileCall& call, Stream stream) {
  const dim3 blocks(static_cast<unsigned>((call.columns + kMergeColumns - 1) / kMergeColumns),
                    static_cast<unsigned>(call.num_rows));
  MergeTileSlices<<<blocks, kMergeThreads, 0, stream>>>(call);
}

}  // namespace dunlin::kernels::cuda
