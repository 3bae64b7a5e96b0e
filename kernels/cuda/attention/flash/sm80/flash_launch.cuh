// SPDX-License-Identifier: Apache-2.0
// FLASH's kernel for one operand format, instantiated by the number of 64-dim slices and of stages: 1, 2 and 4 slices
// with two stages, and 4 with one, for devices whose blocks have 99 KB of shared memory.
#pragma once

#include "kernels/cuda/attention/flash/sm80/flash_block.h"
#include "kernels/cuda/attention/kernels.h"

namespace dunlin::kernels::cuda {

// Blocks per SM: limited by registers, 32 per thread and slice for the values, and by shared memory, 40 KB per slice
// with two stages: two blocks of two slices fill sm_80's 164 KB.
template <int kSlices>
inline constexpr int kFlashBlocks = kSlices == 4 ? 1 : 2;

template <typename Format, int kSlices, int kStages>
__global__ void __launch_bounds__(kBlockThreads, kFlashBlocks<kSlices>)
    FlashRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const BlockPlace place = PlaceOf(plan, call.num_kv_heads, blockIdx.x);
  const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block);
  if (rows.num_rows == 0) return;
  RunFlash<TensorProducts<Format>, kSlices, kStages>(call, plan.parts, plan.totals, rows, place.part, shared);
}

template <typename Format, int kSlices, int kStages>
void LaunchFlashTiles(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  FlashRows<Format, kSlices, kStages>
      <<<static_cast<unsigned>(plan.blocks), kBlockThreads, FlashMemory<kSlices, kStages>::kBytes, stream>>>(call,
                                                                                                             plan);
}

template <typename Format>
void LaunchFlash(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  const FlashTiles tiles = plan.flash;
  if (tiles.slices == 1) return LaunchFlashTiles<Format, 1, 2>(call, plan, stream);
  if (tiles.slices == 2) return LaunchFlashTiles<Format, 2, 2>(call, plan, stream);
  if (tiles.stages == 1) return LaunchFlashTiles<Format, 4, 1>(call, plan, stream);
  LaunchFlashTiles<Format, 4, 2>(call, plan, stream);
}

// Nothing to do for a kernel that the device's blocks have no room for: it is never launched.
template <typename Format, int kSlices, int kStages>
cudaError_t PrepareFlashTiles(int32_t shared_bytes) {
  constexpr int kBytes = FlashMemory<kSlices, kStages>::kBytes;
  if (kBytes > shared_bytes) return cudaSuccess;
  return cudaFuncSetAttribute(FlashRows<Format, kSlices, kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
}

template <typename Format>
cudaError_t PrepareFlash(int32_t shared_bytes) {
  for (const auto prepare : {PrepareFlashTiles<Format, 1, 2>, PrepareFlashTiles<Format, 2, 2>,
                             PrepareFlashTiles<Format, 4, 1>, PrepareFlashTiles<Format, 4, 2>}) {
    if (const cudaError_t error = prepare(shared_bytes); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
