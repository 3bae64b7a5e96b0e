// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/rows/vector.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu {

constinit const RowKernels kAvx512Rows = simd::RowKernelsOf<avx512::Lanes>(/*bf16_rows=*/false);
constinit const RowKernels kAvx512Bf16Rows = simd::RowKernelsOf<avx512::Lanes>(/*bf16_rows=*/true);

}  // namespace dunlin::kernels::cpu
