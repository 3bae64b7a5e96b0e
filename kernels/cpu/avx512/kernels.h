// The avx512 variant's kernels. Contracts: kernels/cpu/kernel_table.h.
// Every other header of this folder is for its own translation units only, which are compiled with AVX-512 flags.
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace dunlin::kernels::cpu::avx512 {

void GemmFp32(const GemmBlock& block);
void GemmFp16(const GemmBlock& block);
void GemmBf16Fma(const GemmBlock& block);  // rows of floats
void GemmBf16Dot(const GemmBlock& block);  // rows of BF16
void GemmFp8Fma(const GemmBlock& block);
void GemmFp8Dot(const GemmBlock& block);
// The same for Zen 4 (AsksL2Freely): they ask memory for lines into L2, and widen weights of FP16 and FP8 beside the
// products of few rows. The same bits, but for which NaN a product of two has.
void GemmFp32AskL2(const GemmBlock& block);
void GemmFp16AskL2(const GemmBlock& block);
void GemmBf16DotAskL2(const GemmBlock& block);
void GemmFp8DotAskL2(const GemmBlock& block);

NormMoments Moments(NormKind kind, const float* in, int64_t n, float epsilon);
void Normalize(const float* in, NormMoments moments, const float* weight, const float* bias, int64_t n, float* out);
void Activate(ActivationKind kind, const float* in, const float* gated_by, int64_t n, float* out);
void Softcap(float cap, int64_t n, float* values);
uint32_t MaxMagnitudeBits(const float* in, int64_t n);

void ToBf16(const float* in, int64_t n, uint16_t* out);
void ToFp16(const float* in, int64_t n, uint16_t* out);
void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out);

// Activation rows: as floats, and as BF16.
void Bf16RowOfFloats(const float* in, int64_t n, void* row);
void Bf16RowOfBf16(const float* in, int64_t n, void* row);
void Fp8RowOfFloats(const float* in, float factor, int64_t n, void* row);
void Fp8RowOfBf16(const float* in, float factor, int64_t n, void* row);

}  // namespace dunlin::kernels::cpu::avx512
