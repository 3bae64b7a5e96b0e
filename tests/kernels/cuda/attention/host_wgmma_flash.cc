// SPDX-License-Identifier: Apache-2.0
// The launchers of FLASH by wgmma that the rows of kernels/cuda/attention name, on the host's machine: blocks in turn,
// each with another order of its threads.
#include <gtest/gtest.h>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_block.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_latent_block.h"
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
    const std::string fault = RunBlock(options, index, plan.blocks, [&](const HostBlock& block) {
      if constexpr (Shape::kSharesRows) {
        RunWgmmaLatent<Shape>(block, flash);
      } else {
        RunWgmmaFlash<Shape>(block, flash);
      }
    });
    ASSERT_EQ(fault, "") << "block " << index << " of " << plan.blocks;
  }
}

DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Bf16Format, 64>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Bf16Format, 64>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Bf16Format, 128>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Bf16Format, 128>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Bf16Format, 256>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Bf16Format, 256>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Fp16Format, 64>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Fp16Format, 64>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Fp16Format, 128>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Fp16Format, 128>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Fp16Format, 256>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Fp16Format, 256>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Bf16Format, 64, true>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Bf16Format, 64, true>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Bf16Format, 128, true>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Bf16Format, 128, true>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Bf16Format, 256, true>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Bf16Format, 256, true>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 64>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 64>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 128>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 128>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 256>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 256>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Fp16Format, 64>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Fp16Format, 64>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Fp16Format, 128>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Fp16Format, 128>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Fp16Format, 256>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Fp16Format, 256>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 64, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 64, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 128, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 128, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 256, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 256, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaLatentShape<Bf16Format>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaLatentShape<Fp16Format>);

}  // namespace dunlin::kernels::cuda
