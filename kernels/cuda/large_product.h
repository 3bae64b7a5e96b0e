// A product large enough that the tensor units are all that it waits for, through the GEMM that prefill takes: Hopper's
// units run at full rate only by instructions that no loop of roof_loops.h has.
#pragma once

#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/cuda/context.h"

namespace dunlin::kernels::cuda {

class Stopwatch;

// Operations a second, the best of `runs` runs; 0 where the device does not take the precision or has no room (0.5 GB).
double LargeProductRate(DeviceContext* context, Stopwatch* watch, Precision precision, int32_t runs);

}  // namespace dunlin::kernels::cuda
