// SPDX-License-Identifier: Apache-2.0
// The exponential of the attention kernels.
#pragma once

#include <cmath>

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// 2^x within 2 ulp; 2^-inf is 0, and so are results below 2^-126.
DUNLIN_HD inline float Exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  const float y = exp2f(x);
  return y < 0x1p-126F ? 0.0F : y;
#endif
}

}  // namespace dunlin::kernels::cuda
