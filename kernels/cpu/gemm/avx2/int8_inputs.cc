// SPDX-License-Identifier: Apache-2.0
// Products of inputs in 8 bits with integer codes.
#include "kernels/cpu/gemm/vector/byte_products.h"
#include "kernels/cpu/simd/lanes_avx2.h"

namespace dunlin::kernels::cpu::avx2 {

template <WeightFormat kFormat>
void Int8Gemm(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::PairedBytes<Lanes, kFormat>>::Run(block);
}
template void Int8Gemm<WeightFormat::kInt8>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kInt4>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ8>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4Zero>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ4Super>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ6Super>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ6Min>(const GemmBlock&);
template void Int8Gemm<WeightFormat::kQ8Wide>(const GemmBlock&);

void RoundInputs(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
  const int32_t bias = Traits(format).code_bits == 8 ? 0 : UnsignedBias(format);  // codes of 8 bits stay signed
  simd::RoundInputRow<Lanes, float>(row, columns, format, bias, coded);
}

}  // namespace dunlin::kernels::cpu::avx2
