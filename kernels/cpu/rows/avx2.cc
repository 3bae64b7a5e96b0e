// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/rows/vector.h"
#include "kernels/cpu/simd/lanes_avx2.h"

namespace dunlin::kernels::cpu {

constinit const RowKernels kAvx2Rows = simd::RowKernelsOf<avx2::Lanes>(/*bf16_rows=*/false);

}  // namespace dunlin::kernels::cpu
