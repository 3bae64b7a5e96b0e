// SPDX-License-Identifier: Apache-2.0
// Flat kernels: one thread per element in a grid-stride loop of blocks of kRowThreads.
#pragma once

#include "kernels/cuda/device/lanes.cuh"

namespace dunlin::kernels::cuda {

inline constexpr unsigned kMaxBlocks = 1U << 20;

__device__ inline int64_t FlatIndex() {
  return int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
}
__device__ inline int64_t FlatStride() {
  return int64_t{gridDim.x} * kRowThreads;
}
inline unsigned BlocksFor(int64_t elements) {
  const int64_t blocks = (elements + kRowThreads - 1) / kRowThreads;
  return blocks < kMaxBlocks ? static_cast<unsigned>(blocks) : kMaxBlocks;
}

}  // namespace dunlin::kernels::cuda
