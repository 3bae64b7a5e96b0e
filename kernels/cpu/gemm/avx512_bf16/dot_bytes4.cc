// SPDX-License-Identifier: Apache-2.0
// Codes of 4 bits.
#include "kernels/cpu/gemm/avx512_bf16/dot_bytes.h"

namespace dunlin::kernels::cpu::avx512_bf16 {

template void Int8Gemm<WeightFormat::kInt4, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kInt4, true>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4, true>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4Zero, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4Zero, true>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4Super, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4Super, true>(const GemmBlock&);

}  // namespace dunlin::kernels::cpu::avx512_bf16
