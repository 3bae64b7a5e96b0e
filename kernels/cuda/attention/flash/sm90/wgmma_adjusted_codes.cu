// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma of adjusted scores on E4M3 pages, widened to BF16 operands. Instantiations: wgmma_flash_launch.cuh's
// = 6.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 64, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 64, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 128, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 128, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashPrefill<Bf16Format, 256, true>>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaAdjusted<WgmmaFlashDecode<Bf16Format, 256, true>>);

}  // namespace dunlin::kernels::cuda
