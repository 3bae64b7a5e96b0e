// SPDX-License-Identifier: Apache-2.0
// Inputs in 8 bits of BF16 rows; their products are those of neon_i8mm.
#include "kernels/cpu/context/neon_gemm_kernels.h"
#include "kernels/cpu/gemm/neon_dot/byte_dot.h"

void dunlin::kernels::cpu::neon_bf16::RoundInputs(const std::byte* row, int64_t columns, WeightFormat format,
                                                  std::byte* coded) {
  neon_dot::DotProducts<uint16_t>::Round(row, columns, format, coded);
}
