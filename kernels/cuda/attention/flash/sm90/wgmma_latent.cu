// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma over latent rows. Instantiations: BF16 and FP16 operands = 2.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

DUNLIN_WGMMA_LATENT_SHAPES(DUNLIN_WGMMA_FLASH_LAUNCHER)

}  // namespace dunlin::kernels::cuda
