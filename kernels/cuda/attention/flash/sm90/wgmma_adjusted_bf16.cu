// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma of adjusted scores on BF16 operands. Instantiations: wgmma_flash_launch.cuh's = 6.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

DUNLIN_WGMMA_FLASH_SHAPES(DUNLIN_WGMMA_FLASH_LAUNCHER, WgmmaAdjusted, Bf16Format, false)

}  // namespace dunlin::kernels::cuda
