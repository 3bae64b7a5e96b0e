// SPDX-License-Identifier: Apache-2.0
// FLASH's kernel for one operand format, instantiated by the number of 64-dim slices: 1, 2 and 4.
#pragma once

#include "kernels/cuda/attention/flash_block.h"
#include "kernels/cuda/attention/kernels.h"

namespace dunlin::kernels::cuda {

// Blocks per SM: limited by registers, 32 per thread and slice for the values, and by shared memory, 40 KB per slice.
template <int kSlices>
inline constexpr int kFlashBlocks = kSlices == 4 ? 1 : 2;

template <typename Format, int kSlices>
__global__ void __launch_bounds__(kBlockThreads, kFlashBlocks<kSlices>)
    FlashRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const BlockPlace place = PlaceOf(plan, call.num_kv_heads, blockIdx.x);
  const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block);
  if (rows.num_rows == 0) return;
  RunFlash<TensorProducts<Format>, kSlices>(call, plan.parts, plan.totals, rows, place.part, shared);
}

template <typename Format, int kSlices>
void LaunchFlashSlices(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  FlashRows<Format, kSlices>
      <<<static_cast<unsigned>(plan.blocks), kBlockThreads, FlashMemory<kSlices>::kBytes, stream>>>(call, plan);
}

template <typename Format>
void LaunchFlash(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  const int32_t dim = AtLeast(call.keys.dim, call.values.dim);
  if (dim <= 64) return LaunchFlashSlices<Format, 1>(call, plan, stream);
  if (dim <= 128) return LaunchFlashSlices<Format, 2>(call, plan, stream);
  LaunchFlashSlices<Format, 4>(call, plan, stream);
}

template <typename Format, int kSlices>
cudaError_t PrepareFlashSlices() {
  return cudaFuncSetAttribute(FlashRows<Format, kSlices>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              FlashMemory<kSlices>::kBytes);
}

template <typename Format>
cudaError_t PrepareFlash() {
  if (const cudaError_t error = PrepareFlashSlices<Format, 1>(); error != cudaSuccess) return error;
  if (const cudaError_t error = PrepareFlashSlices<Format, 2>(); error != cudaSuccess) return error;
  return PrepareFlashSlices<Format, 4>();
}

}  // namespace dunlin::kernels::cuda
