// SPDX-License-Identifier: Apache-2.0
// The launchers of FLASH by wgmma that the rows of kernels/cuda/attention name, on the host's machine: blocks in turn,
// each with another order of its threads.
#include <gtest/gtest.h>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_run.h"
#include "tests/kernels/cuda/sm90/host_block.h"

namespace dunlin::kernels::cuda {

template <typename Shape>
int PrepareWgmmaFlash() {
  return 0;
}
template <typename Shape>
void LaunchWgmmaFlash(const AttentionCall& call, const LaunchPlan& plan, Stream /*stream*/) {
  WgmmaFlashCall flash = WgmmaFlashCallOf(call, plan, Shape::kTileKeys);
  ASSERT_EQ(EncodeTensorMap(WgmmaFlashMapOf(call, call.keys, flash.box_keys), &flash.keys), 0);
  ASSERT_EQ(EncodeTensorMap(WgmmaFlashMapOf(call, call.values, flash.box_keys), &flash.values), 0);
  MachineOptions options{.threads = Shape::kThreads, .shared_bytes = Shape::kSharedBytes};
  for (int64_t index = 0; index < plan.blocks; ++index, ++options.seed) {
    const std::string fault =
        RunBlock(options, index, plan.blocks, [&](const HostBlock& block) { RunWgmmaFlash<Shape>(block, flash); });
    ASSERT_EQ(fault, "") << "block " << index << " of " << plan.blocks;
  }
}

DUNLIN_ALL_WGMMA_SHAPES(DUNLIN_WGMMA_FLASH_LAUNCHER)

}  // namespace dunlin::kernels::cuda
