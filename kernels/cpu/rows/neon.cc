// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/rows/vector.h"
#include "kernels/cpu/simd/lanes_neon.h"

namespace dunlin::kernels::cpu {

constinit const RowKernels kNeonRows = simd::RowKernelsOf<neon::Lanes>(/*bf16_rows=*/false);
constinit const RowKernels kNeonBf16Rows = simd::RowKernelsOf<neon::Lanes>(/*bf16_rows=*/true);

}  // namespace dunlin::kernels::cpu
