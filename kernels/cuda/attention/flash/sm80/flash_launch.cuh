// SPDX-License-Identifier: Apache-2.0
// FLASH's kernel for one operand format. Instantiations by the number of 64-dim slices and of stages: 1, 2 and 4 slices
// with two stages, 4 with one, for devices whose blocks have 99 KB of shared memory, and 3 of wide rows = 5.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/flash/sm80/flash.h"

namespace dunlin::kernels::cuda {

// Blocks per SM: limited by registers, 32 per thread and slice for the values, and by shared memory, 40 KB per slice
// with two stages: two blocks of two slices fill sm_80's 164 KB.
template <int kSlices>
inline constexpr int kFlashBlocks = kSlices > 2 ? 1 : 2;

template <typename Format, int kSlices, int kStages, bool kWide>
__global__ void __launch_bounds__(kFlashGeometry<kSlices, kStages, kWide>.threads, kFlashBlocks<kSlices>)
    FlashRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const BlockPlace place = PlaceOf(plan, call.num_kv_heads, blockIdx.x);
  constexpr BlockGeometry kGeometry = kFlashGeometry<kSlices, kStages, kWide>;
  const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block, kGeometry.rows);
  if (rows.num_rows == 0) return;
  float* totals = plan.OwnAs<FlashPlan>().totals;
  RunFlash<TensorProducts<Format>, kSlices, kStages, kWide>(call, plan.parts, totals, rows,
                                                            place.column_tile * kGeometry.columns, place.part, shared);
}

template <typename Format, int kSlices, int kStages, bool kWide>
int PrepareFlash() {
  return cudaFuncSetAttribute(FlashRows<Format, kSlices, kStages, kWide>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kFlashGeometry<kSlices, kStages, kWide>.shared_bytes);
}

template <typename Format, int kSlices, int kStages, bool kWide>
void LaunchFlash(const AttentionCall& call, const LaunchPlan& plan, Stream stream) {
  constexpr BlockGeometry kGeometry = kFlashGeometry<kSlices, kStages, kWide>;
  FlashRows<Format, kSlices, kStages, kWide>
      <<<static_cast<unsigned>(plan.blocks), kGeometry.threads, kGeometry.shared_bytes, stream>>>(call, plan);
}

}  // namespace dunlin::kernels::cuda
