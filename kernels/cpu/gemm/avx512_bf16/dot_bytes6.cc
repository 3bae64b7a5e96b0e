// SPDX-License-Identifier: Apache-2.0
// Codes of 6 bits.
#include "kernels/cpu/gemm/avx512_bf16/dot_bytes.h"

namespace dunlin::kernels::cpu::avx512_bf16 {

template void Int8Gemm<WeightFormat::kQ6Super, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ6Super, true>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ6Min, false>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ6Min, true>(const GemmBlock&);

}  // namespace dunlin::kernels::cpu::avx512_bf16
