// SPDX-License-Identifier: Apache-2.0
// FLASH on BF16 operands, keys and values in BF16 or E4M3. Instantiations: flash_launch.cuh's = 5.
#include "kernels/cuda/attention/flash/sm80/flash_launch.cuh"

namespace dunlin::kernels::cuda {

template int PrepareFlash<Bf16Format, 1, 2>();
template void LaunchFlash<Bf16Format, 1, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Bf16Format, 2, 2>();
template void LaunchFlash<Bf16Format, 2, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Bf16Format, 4, 2>();
template void LaunchFlash<Bf16Format, 4, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Bf16Format, 4, 1>();
template void LaunchFlash<Bf16Format, 4, 1>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Bf16Format, 3, 1, true>();
template void LaunchFlash<Bf16Format, 3, 1, true>(const AttentionCall&, const LaunchPlan&, Stream);

}  // namespace dunlin::kernels::cuda
