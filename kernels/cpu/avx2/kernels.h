// The avx2 variant's kernels. Contracts: kernels/cpu/kernel_table.h.
// Every other header of this folder is for its own translation units only, which are compiled with AVX2 flags.
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace dunlin::kernels::cpu::avx2 {

void GemmFp32(const GemmBlock& block);
void GemmBf16(const GemmBlock& block);
void GemmFp16(const GemmBlock& block);
void GemmFp8(const GemmBlock& block);

NormMoments Moments(NormKind kind, const float* in, int64_t n, float epsilon);
void Normalize(const float* in, NormMoments moments, const float* weight, const float* bias, int64_t n, float* out);
void Activate(ActivationKind kind, const float* in, const float* gated_by, int64_t n, float* out);
void Softcap(float cap, int64_t n, float* values);
uint32_t MaxMagnitudeBits(const float* in, int64_t n);

void ToBf16(const float* in, int64_t n, uint16_t* out);
void ToFp16(const float* in, int64_t n, uint16_t* out);
void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out);
void Bf16RowOfFloats(const float* in, int64_t n, void* row);
void Fp8RowOfFloats(const float* in, float factor, int64_t n, void* row);

}  // namespace dunlin::kernels::cpu::avx2
