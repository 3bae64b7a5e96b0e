// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma of heads of more than 256 dims. Instantiations: BF16 and FP16 operands, and BF16 ones of E4M3 pages
// = 3.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

DUNLIN_WGMMA_WIDE_SHAPES(DUNLIN_WGMMA_FLASH_LAUNCHER)

}  // namespace dunlin::kernels::cuda
