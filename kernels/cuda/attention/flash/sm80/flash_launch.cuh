// SPDX-License-Identifier: Apache-2.0
// FLASH's kernel for one operand format. Instantiations by the number of 64-dim slices and of stages: 1, 2 and 4 slices
// with two stages, and 4 with one, for devices whose blocks have 99 KB of shared memory = 4.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/flash/sm80/flash.h"

namespace dunlin::kernels::cuda {

// Blocks per SM: limited by registers, 32 per thread and slice for the values, and by shared memory, 40 KB per slice
// with two stages: two blocks of two slices fill sm_80's 164 KB.
template <int kSlices>
inline constexpr int kFlashBlocks = kSlices == 4 ? 1 : 2;

template <typename Format, int kSlices, int kStages>
__global__ void __launch_bounds__(kFlashGeometry<kSlices, kStages>.threads, kFlashBlocks<kSlices>)
    FlashRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const BlockPlace place = PlaceOf(plan, call.num_kv_heads, blockIdx.x);
  const RowBlock rows =
      BlockOf(call, place.sequence, place.kv_head, place.row_block, kFlashGeometry<kSlices, kStages>.rows);
  if (rows.num_rows == 0) return;
  float* totals = plan.OwnAs<FlashPlan>().totals;
  RunFlash<TensorProducts<Format>, kSlices, kStages>(call, plan.parts, totals, rows, place.part, shared);
}

template <typename Format, int kSlices, int kStages>
int PrepareFlash() {
  return cudaFuncSetAttribute(FlashRows<Format, kSlices, kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kFlashGeometry<kSlices, kStages>.shared_bytes);
}

template <typename Format, int kSlices, int kStages>
void LaunchFlash(const AttentionCall& call, const LaunchPlan& plan, Stream stream) {
  constexpr BlockGeometry kGeometry = kFlashGeometry<kSlices, kStages>;
  FlashRows<Format, kSlices, kStages>
      <<<static_cast<unsigned>(plan.blocks), kGeometry.threads, kGeometry.shared_bytes, stream>>>(call, plan);
}

}  // namespace dunlin::kernels::cuda
