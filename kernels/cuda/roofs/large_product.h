// SPDX-License-Identifier: Apache-2.0
// A GEMM large enough to be limited only by the tensor cores, through prefill's GEMM path: Hopper's tensor cores reach
// their full rate only through instructions that the loops of roof_loops.h do not use.
#pragma once

#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/cuda/device/context.h"

namespace dunlin::kernels::cuda {

class Stopwatch;

// Operations per second, the best of `runs` runs; 0 where the device does not support the precision or lacks memory
// (0.5 GB).
double LargeProductRate(DeviceContext* context, Stopwatch* watch, Precision precision, int32_t runs);

}  // namespace dunlin::kernels::cuda
