// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM's kernel for one kind of block.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/sm80/grouped_kernels.h"
#include "kernels/cuda/gemm/sm80/grouped_plan.h"

namespace dunlin::kernels::cuda {

// Blocks per SM: as kTileGemmBlocks, less what the group's own pointers take.
template <typename Block>
inline constexpr int kGroupedGemmBlocks = Block::kRowGroups == 1 ? 3 : 2;

template <typename Block>
inline constexpr int kGroupedGemmBytes = decltype(Block::memory)::kBytes;

template <typename Block>
__global__ void __launch_bounds__(kBlockThreads, kGroupedGemmBlocks<Block>)
    GroupedGemmRows(const __grid_constant__ GroupedCall call) {
  extern __shared__ __align__(16) unsigned char shared[];
  RunGroupedGemm<Block>(call, blockIdx.x, shared);
}

template <typename Block>
void LaunchGrouped(const GroupedCall& call, Stream stream) {
  const auto blocks = static_cast<unsigned>(BlocksOf(call, Block::kRowGroups));
  GroupedGemmRows<Block><<<blocks, kBlockThreads, kGroupedGemmBytes<Block>, stream>>>(call);
}

template <typename Block>
int PrepareGrouped() {
  return cudaFuncSetAttribute(GroupedGemmRows<Block>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kGroupedGemmBytes<Block>);
}

// A launcher's choice between two kinds of block, the second for groups of many rows.
template <typename FewRows, typename ManyRows>
void LaunchByRows(const GroupedCall& call, Precision precision, Stream stream) {
  if (RowGroupsOf(call, precision) == 1) return LaunchGrouped<FewRows>(call, stream);
  LaunchGrouped<ManyRows>(call, stream);
}

template <typename... Blocks>
int PrepareEach() {
  int error = cudaSuccess;
  ((error = error == cudaSuccess ? PrepareGrouped<Blocks>() : error), ...);
  return error;
}

}  // namespace dunlin::kernels::cuda
