// SPDX-License-Identifier: Apache-2.0
// Codes of 8 bits.
#include "kernels/cpu/gemm/avx512_bf16/dot_bytes.h"

namespace dunlin::kernels::cpu::avx512_bf16 {

template void Int8Gemm<WeightFormat::kInt8, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kInt8, true>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ8, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ8, true>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ8Wide, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ8Wide, true>(const GemmBlock&);

void RoundInputs(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
  simd::RoundInputRow<Lanes, uint16_t>(row, columns, format, UnsignedBias(format), coded);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
