// SPDX-License-Identifier: Apache-2.0
// The rows of FLASH from compute capability 8.0 on, one per operand format, number of 64-dim slices of a row and number
// of stages. A block's outputs stay in registers: of wide rows, of more than 256 dims, it has 192 columns. The products
// are those of tensor cores, which do not take FP32.
#pragma once

#include "kernels/cuda/attention/flash/sm80/flash_block.h"
#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/merge.h"

namespace dunlin::kernels::cuda {

struct FlashPlan {
  float* totals;  // FP32 rows laid out as the outputs; not read where no row has several splits
};

bool HasNoSelection(const AttentionCall& call);
size_t FlashDenseBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device);
bool DivideFlash(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device, void* workspace,
                 size_t workspace_bytes, LaunchPlan* plan);
// Format: Bf16Format or Fp16Format. Defined in flash_launch.cuh, instantiated in one file per format.
template <typename Format, int kSlices, int kStages, bool kWide = false>
int PrepareFlash();
template <typename Format, int kSlices, int kStages, bool kWide = false>
void LaunchFlash(const AttentionCall& call, const LaunchPlan& plan, Stream stream);

template <int kSlices, int kStages, bool kWide = false>
inline constexpr BlockGeometry kFlashGeometry = {.threads = kBlockThreads,
                                                 .rows = kTileRows,
                                                 .columns = kWide ? kSlices* kTileDims : 0,
                                                 .part_keys = kSplitKeys,
                                                 .stages = kStages,
                                                 .shared_bytes = FlashMemory<kSlices, kStages, kWide>::kBytes};

template <typename Format, int kSlices, int kStages, bool kWide = false>
constexpr AttentionKernel FlashKernel(unsigned dtypes) {
  return {.backend = AttentionBackend::kFlash,
          .phases = kAnyPhase,
          .sm_min = 80,
          .sm_max = kAnyLaterSm,
          .dtypes = dtypes,
          .limits = {kWide ? kWideDims : kSlices * kTileDims, false, false, kWide ? kWideLatentDims : 0},
          .geometry = kFlashGeometry<kSlices, kStages, kWide>,
          .plan = {PagedPartBytes, FlashDenseBytes, DivideFlash},
          .prepare = PrepareFlash<Format, kSlices, kStages, kWide>,
          .launch = LaunchFlash<Format, kSlices, kStages, kWide>,
          .merge = LaunchMerge,
          .takes = FlashSelects(kSlices, kStages) ? nullptr : HasNoSelection};
}

}  // namespace dunlin::kernels::cuda
