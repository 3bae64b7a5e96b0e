// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma over latent rows. Instantiations: BF16 and FP16 operands = 2.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

template int PrepareWgmmaFlash<WgmmaLatentShape<Bf16Format>>();
template void LaunchWgmmaFlash<WgmmaLatentShape<Bf16Format>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaLatentShape<Fp16Format>>();
template void LaunchWgmmaFlash<WgmmaLatentShape<Fp16Format>>(const AttentionCall&, const LaunchPlan&, Stream);

}  // namespace dunlin::kernels::cuda
