// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels of the ARM variants with matrix products, beside those of gemm_kernels.h.
#pragma once

#include "kernels/cpu/context/gemm_kernels.h"

namespace dunlin::kernels::cpu {

namespace neon_i8mm {
extern const Int8GemmKernels kInt8Kernels;
}  // namespace neon_i8mm
// Activation rows of bf16 and fp8 are BF16.
namespace neon_bf16 {
GemmKernel GemmBf16, GemmFp8;
extern const GemmKernelArray kIntegers4Kernels, kIntegers6Kernels, kIntegers8Kernels;  // HasIntegersOf<4>, 6 and 8
extern const GemmKernelArray kLevelKernels;                                            // HasLevels
RoundInputsKernel RoundInputs;  // the products are those of neon_i8mm
}  // namespace neon_bf16

}  // namespace dunlin::kernels::cpu
