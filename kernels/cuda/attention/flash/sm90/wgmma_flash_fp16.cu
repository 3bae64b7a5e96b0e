// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma on FP16 operands. Instantiations: wgmma_flash_launch.cuh's = 6.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Fp16Format, 64>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Fp16Format, 64>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Fp16Format, 128>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Fp16Format, 128>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashPrefill<Fp16Format, 256>);
DUNLIN_WGMMA_FLASH_LAUNCHER(WgmmaFlashDecode<Fp16Format, 256>);

}  // namespace dunlin::kernels::cuda
