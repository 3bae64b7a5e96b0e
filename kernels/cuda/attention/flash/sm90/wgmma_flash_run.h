// SPDX-License-Identifier: Apache-2.0
// A block of FLASH by wgmma: one warp loads keys, one values (of codes all of them, which the other warps widen), and
// one or two warpgroups multiply. Where a block takes several tasks the warps that load go ahead to the next one.
// Block: DeviceBlock, or a host's of the same members.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_block.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_codes.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_load.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_shared_block.h"

namespace dunlin::kernels::cuda {

template <typename Shape, typename Block>
DUNLIN_DEVICE void StartWgmmaFlash(const WgmmaFlashBlock<Shape, Block>& at) {
  if (at.block.thread() == 0) {
    at.block.PrefetchMap(at.flash.keys);
    at.block.PrefetchMap(at.flash.values);
    const auto readers = static_cast<uint32_t>(4 * at.warpgroups());  // one arrival per warp
    DUNLIN_UNROLL
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      at.block.InitBarrier(at.keys_full(stage), Shape::kCodes ? Shape::kWideners : 1);
      at.block.InitBarrier(at.values_full(stage), Shape::kCodes ? Shape::kWideners : 1);
      at.block.InitBarrier(at.keys_empty(stage), readers);
      at.block.InitBarrier(at.values_empty(stage), readers);
    }
    at.block.InitBarrier(at.values_arrived(), 1);
    if constexpr (Shape::kCodes) {
      at.block.InitBarrier(at.value_scales_empty(), readers);
      DUNLIN_UNROLL
      for (int stage = 0; stage < Shape::kStages; ++stage) {
        at.block.InitBarrier(at.key_codes_arrived(stage), 1);
        at.block.InitBarrier(at.value_codes_arrived(stage), 1);
      }
    }
    at.block.FenceBarrierInit();
  }
  at.block.SyncBlock();
}

// What the warps of the last warpgroups do for a task. warp: of these.
template <typename Shape, typename Block>
DUNLIN_DEVICE void LoadWgmmaFlash(const WgmmaFlashBlock<Shape, Block>& at, int warp, int lane, WgmmaFlashRings* rings) {
  if constexpr (Shape::kCodes) {
    const WgmmaFlashCodes<Shape, Block> codes{at};
    if (warp == 0) {
      codes.Load(lane, rings);
    } else {
      codes.Widen(warp - 1, lane, rings);
    }
  } else {
    const WgmmaFlashLoader<Shape, Block> loader{at};
    if (warp == 0) loader.LoadKeys(lane, &rings->keys);
    if (warp == 1 && !Shape::kValuesInKeys) loader.LoadValues(lane, rings);
  }
}

// What warpgroup `warpgroup` does for a task.
template <typename Shape, typename Block>
DUNLIN_DEVICE void MultiplyWgmmaFlash(const WgmmaFlashBlock<Shape, Block>& at, int warpgroup, WgmmaFlashRings* rings) {
  using Work = std::conditional_t<Shape::kSharesRows, WgmmaSharedWork<Shape, Block>, WgmmaFlashWork<Shape, Block>>;
  const Work work{at,
                  {at, Shape::kAdjusts ? 1.0F : WgmmaFlashFactor(at.flash.call)},
                  warpgroup,
                  at.block.Again(at.block.thread() % 128)};
  work.Run(rings);
}

template <typename Shape, typename Block>
DUNLIN_DEVICE void RunWgmmaFlash(const Block& block, const WgmmaFlashCall& flash) {
  block.LaunchDependents();
  block.WaitForPreceding();
  WgmmaFlashTask task;
  int32_t turn = 0;
  const auto next = [&] {
    return FindWgmmaFlashTask<Shape>(flash, static_cast<int32_t>(block.index()), static_cast<int32_t>(block.count()),
                                     &turn, &task);
  };
  if constexpr (!Shape::kPersistent) {
    if (!next()) return;
  }
  const WgmmaFlashBlock<Shape, Block> at{block, flash, task, block.SharedBase()};
  StartWgmmaFlash(at);
  WgmmaFlashRings rings;
  const int warpgroup = block.thread() / 128;
  if (warpgroup >= Shape::kWarpgroups) {
    if constexpr (Shape::kMovesRegisters) block.template LowerRegisters<Shape::kLoadRegisters>();
    const int warp = block.thread() / kWarpLanes - 4 * Shape::kWarpgroups;
    const int lane = block.thread() % kWarpLanes;
    if constexpr (Shape::kPersistent) {
      while (next()) LoadWgmmaFlash(at, warp, lane, &rings);
    } else {
      LoadWgmmaFlash(at, warp, lane, &rings);
    }
    return;
  }
  if constexpr (Shape::kMovesRegisters) block.template RaiseRegisters<Shape::kRegisters>();
  if constexpr (Shape::kPersistent) {
    while (next()) MultiplyWgmmaFlash(at, warpgroup, &rings);
  } else if (warpgroup < at.warpgroups()) {
    MultiplyWgmmaFlash(at, warpgroup, &rings);
  }
}

}  // namespace dunlin::kernels::cuda
