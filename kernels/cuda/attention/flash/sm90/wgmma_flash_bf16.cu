// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma on BF16 operands. Instantiations: wgmma_flash_launch.cuh's = 6.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_launch.cuh"

namespace dunlin::kernels::cuda {

template int PrepareWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 64>>();
template void LaunchWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 64>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 128>>();
template void LaunchWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 128>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaFlashDecode<Bf16Format, 64>>();
template void LaunchWgmmaFlash<WgmmaFlashDecode<Bf16Format, 64>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaFlashDecode<Bf16Format, 128>>();
template void LaunchWgmmaFlash<WgmmaFlashDecode<Bf16Format, 128>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 256>>();
template void LaunchWgmmaFlash<WgmmaFlashPrefill<Bf16Format, 256>>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareWgmmaFlash<WgmmaFlashDecode<Bf16Format, 256>>();
template void LaunchWgmmaFlash<WgmmaFlashDecode<Bf16Format, 256>>(const AttentionCall&, const LaunchPlan&, Stream);

}  // namespace dunlin::kernels::cuda
