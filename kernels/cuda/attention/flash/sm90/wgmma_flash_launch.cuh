// SPDX-License-Identifier: Apache-2.0
// The kernel of FLASH by wgmma for one operand format. Instantiations: heads of up to 64, 128 and 256 dims, one
// and two warpgroups that multiply = 6; in other files as many whose scores are adjusted.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_run.h"
#include "kernels/cuda/sm90/device_block.h"
#include "kernels/cuda/sm90/launch.cuh"

namespace dunlin::kernels::cuda {

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) WgmmaFlash(const __grid_constant__ WgmmaFlashCall flash) {
  RunWgmmaFlash<Shape>(DeviceBlock(), flash);
}

template <typename Shape>
int PrepareWgmmaFlash() {
  return cudaFuncSetAttribute(WgmmaFlash<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
}

template <typename Shape>
void LaunchWgmmaFlash(const AttentionCall& call, const LaunchPlan& plan, Stream stream) {
  WgmmaFlashCall flash = WgmmaFlashCallOf(call, plan, Shape::kTileKeys);
  const bool encoded =
      EncodeTensorMap(WgmmaFlashMapOf(call, call.keys, flash.box_keys), &flash.keys) == cudaSuccess &&
      EncodeTensorMap(WgmmaFlashMapOf(call, call.values, flash.box_keys), &flash.values) == cudaSuccess;
  const auto blocks = encoded ? static_cast<unsigned>(plan.blocks) : 0U;
  LaunchKernel(WgmmaFlash<Shape>, blocks, Shape::kThreads, Shape::kSharedBytes, true, stream, flash);
}

}  // namespace dunlin::kernels::cuda
