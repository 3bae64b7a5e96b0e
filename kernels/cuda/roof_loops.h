// The loops behind MeasureRoofs, enqueued on a stream: each does one kind of work on all multiprocessors and nothing
// else. They are loops of a bench, not of the serving path.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"

namespace dunlin::kernels::cuda {

// Where a loop runs. sink: one float of device memory, written only if a sum has a value that it cannot have, so that
// no loop is optimised away.
struct RoofPlace {
  cudaStream_t stream;
  int multiprocessors;
  float* sink;
};

// FP32 multiply-adds of the plain units, in chains that do not depend on each other.
void EnqueueFmaRounds(const RoofPlace& place, int64_t rounds);
double FmaRoundFlops(int multiprocessors);

// mma.sync of 16 x 8 x 16 BF16 or FP16 values added in FP32: what the kernels of attention multiply with, and on Hopper
// less than wgmma gives.
void EnqueueMmaRounds(const RoofPlace& place, DType dtype, int64_t rounds);
double MmaRoundFlops(int multiprocessors);

// Reads `bytes` (whole groups of 16 of them) in ascending order.
void EnqueueRead(const RoofPlace& place, const void* memory, size_t bytes);

}  // namespace dunlin::kernels::cuda
