// SPDX-License-Identifier: Apache-2.0
// Launches of small kernels, blocks of kRowThreads, that may begin before the preceding kernel has ended: they call
// LaunchDependents first and WaitForPreceding before they touch anything but constants of the model.
#pragma once

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/sm90/launch.cuh"

namespace dunlin::kernels::cuda {

// Waits until the preceding kernels have ended. No effect in an ordinary launch, and on other devices.
__device__ inline void WaitForPreceding() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Of a kernel that reads nothing but what others write.
__device__ inline void StartEarly() {
  LaunchDependents();
  WaitForPreceding();
}

// A block's lanes in such a kernel.
struct EarlyLanes : BlockLanes {
  __device__ void WaitForPreceding() const { cuda::WaitForPreceding(); }
};

// Whether the device has such launches.
inline bool LaunchesEarly(const DeviceContext* context) {
  return context->shape.sm_version >= 90;
}

template <typename... Params>
void LaunchAfter(const DeviceContext* context, void (*kernel)(Params...), dim3 blocks,
                 const std::type_identity_t<Params>&... params) {
  LaunchKernel(kernel, blocks, kRowThreads, 0, LaunchesEarly(context), context->stream, params...);
}

}  // namespace dunlin::kernels::cuda
