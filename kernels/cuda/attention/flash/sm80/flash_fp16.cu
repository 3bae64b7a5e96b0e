// SPDX-License-Identifier: Apache-2.0
// FLASH on FP16 operands. Instantiations: flash_launch.cuh's = 5.
#include "kernels/cuda/attention/flash/sm80/flash_launch.cuh"

namespace dunlin::kernels::cuda {

template int PrepareFlash<Fp16Format, 1, 2>();
template void LaunchFlash<Fp16Format, 1, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Fp16Format, 2, 2>();
template void LaunchFlash<Fp16Format, 2, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Fp16Format, 4, 2>();
template void LaunchFlash<Fp16Format, 4, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Fp16Format, 4, 1>();
template void LaunchFlash<Fp16Format, 4, 1>(const AttentionCall&, const LaunchPlan&, Stream);
template int PrepareFlash<Fp16Format, 3, 1, true>();
template void LaunchFlash<Fp16Format, 3, 1, true>(const AttentionCall&, const LaunchPlan&, Stream);

}  // namespace dunlin::kernels::cuda
