// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma on E4M3 pages, widened to BF16 operands. Instantiations: wgmma_flash_launch.cuh's = 6.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

template int PrepareWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 64, true>>();
template void LaunchWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 64, true>>(const AttentionCall&, const LaunchPlan&,
                                                                        Stream);
template int PrepareWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 128, true>>();
template void LaunchWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 128, true>>(const AttentionCall&, const LaunchPlan&,
                                                                         Stream);
template int PrepareWgmmaFlash<WgmmaFlashDecode<Bf16Format, 64, true>>();
template void LaunchWgmmaFlash<WgmmaFlashDecode<Bf16Format, 64, true>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaFlashDecode<Bf16Format, 128, true>>();
template void LaunchWgmmaFlash<WgmmaFlashDecode<Bf16Format, 128, true>>(const AttentionCall&, const LaunchPlan&,
                                                                        Stream);
template int PrepareWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 256, true>>();
template void LaunchWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 256, true>>(const AttentionCall&, const LaunchPlan&,
                                                                         Stream);
template int PrepareWgmmaFlash<WgmmaFlashDecode<Bf16Format, 256, true>>();
template void LaunchWgmmaFlash<WgmmaFlashDecode<Bf16Format, 256, true>>(const AttentionCall&, const LaunchPlan&,
                                                                        Stream);

}  // namespace dunlin::kernels::cuda
