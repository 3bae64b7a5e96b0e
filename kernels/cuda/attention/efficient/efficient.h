// SPDX-License-Identifier: Apache-2.0
// EFFICIENT's rows, one per kind of product.
#pragma once

#include "kernels/cuda/attention/efficient/efficient_block.h"
#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/merge.h"

namespace dunlin::kernels::cuda {

bool DivideEfficient(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device,
                     void* workspace, size_t workspace_bytes, LaunchPlan* plan);
// Products: TensorProducts<Bf16Format>, TensorProducts<Fp16Format> or Fp32Products.
template <typename Products>
int PrepareEfficient();
template <typename Products>
void LaunchEfficient(const AttentionCall& call, const LaunchPlan& plan, Stream stream);

template <typename Products>
inline constexpr BlockGeometry kEfficientGeometry = {.threads = kBlockThreads,
                                                     .rows = kTileRows,
                                                     .columns = kTileDims,
                                                     .part_keys = kChunkKeys,
                                                     .stages = 1,
                                                     .shared_bytes = TileMemory<Products>::kBytes};

template <typename Products>
constexpr AttentionKernel EfficientKernel(unsigned dtypes) {
  return {.backend = AttentionBackend::kEfficient,
          .phases = kAnyPhase,
          .sm_min = 80,
          .sm_max = kAnyLaterSm,
          .dtypes = dtypes,
          .limits = {kAnyHeadDim, true, true},
          .geometry = kEfficientGeometry<Products>,
          .plan = {PagedPartBytes, PartBytes, DivideEfficient},
          .prepare = PrepareEfficient<Products>,
          .launch = LaunchEfficient<Products>,
          .merge = LaunchMerge};
}

}  // namespace dunlin::kernels::cuda
