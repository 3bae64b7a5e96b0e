// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel whose blocks begin once those of the preceding one have called
// LaunchDependents or ended. It calls WaitForPreceding before it touches what another kernel writes or reads.
#pragma once

#include <cuda_runtime_api.h>

namespace dunlin::kernels::cuda {

// Enqueues kernel(call); early: such a launch, else an ordinary one. Its error is cudaGetLastError's.
template <typename Call>
void LaunchKernel(void (*kernel)(Call), unsigned blocks, unsigned threads, uint32_t shared_bytes, bool early,
                  cudaStream_t stream, const Call& call) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, call);
}

}  // namespace dunlin::kernels::cuda
