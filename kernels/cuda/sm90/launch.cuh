// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel whose blocks begin once those of the preceding one have called
// LaunchDependents or ended. It calls WaitForPreceding before it touches what another kernel writes or reads, and so
// does at least one thread of every block of it, so that its end implies the end of all kernels before it. Both calls:
// ops/launch_after.cuh, or members of DeviceBlock.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

namespace dunlin::kernels::cuda {

// Enqueues kernel(params); early: such a launch, from compute capability 9.0 on, else an ordinary one. Its error is
// cudaGetLastError's.
template <typename... Params>
void LaunchKernel(void (*kernel)(Params...), dim3 blocks, unsigned threads, uint32_t shared_bytes, bool early,
                  cudaStream_t stream, const std::type_identity_t<Params>&... params) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, params...);
}

}  // namespace dunlin::kernels::cuda
