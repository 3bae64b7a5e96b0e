// SPDX-License-Identifier: Apache-2.0
// The loops behind MeasureRoofs, enqueued on a stream: each does one kind of work on all multiprocessors and nothing
// else. For benches, not for serving.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"

namespace dunlin::kernels::cuda {

// Where a loop runs. sink: one float of device memory, written only if a sum has an impossible value, so that no loop
// is optimised away.
struct RoofPlace {
  cudaStream_t stream;
  int multiprocessors;
  float* sink;
};

// FP32 multiply-adds on the CUDA cores, in independent chains.
void EnqueueFmaRounds(const RoofPlace& place, int64_t rounds);
double FmaRoundFlops(int multiprocessors);

// mma.sync of 16 x 8 x 16 BF16 or FP16 values accumulated in FP32: the instruction of the attention kernels; on Hopper
// its rate is below wgmma's.
void EnqueueMmaRounds(const RoofPlace& place, DType dtype, int64_t rounds);
double MmaRoundFlops(int multiprocessors);

// Reads `bytes`, a multiple of 16, in ascending order.
void EnqueueRead(const RoofPlace& place, const void* memory, size_t bytes);

}  // namespace dunlin::kernels::cuda
