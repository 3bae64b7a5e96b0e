// Query and output rows by AVX-512 (tile_ops.h gives their meaning). Included by the avx512_*.cc only, always inlined
// or templates over their types, so none of it leaves those files.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::avx512 {

static inline __attribute__((always_inline)) __mmask16 RowMask(int left) {
  return left >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1U << left) - 1U);
}

static inline __attribute__((always_inline)) __m512 LoadRow(const void* row, DType dtype, int d, __mmask16 mask) {
  if (dtype == DType::kF32) return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(row) + d);
  const __m256i halves = _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(row) + d);
  if (dtype == DType::kF16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// BF16 bits in the high halves, rounded to nearest even, denormals kept: FloatToBf16 of float_formats.h. (The
// instruction vcvtneps2bf16 makes denormals zero.)
static inline __attribute__((always_inline)) __m512i RoundBf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_and_si512(quiet, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
}

static inline __attribute__((always_inline)) __m256i HighHalves(__m512i bits) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

// P: that of the table; BF16 packs pairs.
template <typename Step>
void LoadQuery(const QueryRowArgs& args) {
  const __m512 sign = _mm512_set1_ps(args.sign);
  for (int d = 0; d < args.head_dim; d += 16) {
    const __mmask16 mask = args.sign == 0.0F ? __mmask16{0} : RowMask(args.head_dim - d);
    __m512 value = _mm512_mul_ps(LoadRow(args.in, args.in_dtype, d, mask), sign);
    if (args.round_to_bf16) value = _mm512_castsi512_ps(RoundBf16(value));
    if constexpr (sizeof(typename Step::P) == 2) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(args.packed + 2 * d), HighHalves(_mm512_castps_si512(value)));
    } else {
      _mm512_storeu_ps(reinterpret_cast<float*>(args.packed) + d, value);
    }
  }
}

template <typename Step>
void StoreOutput(const OutputRowArgs& args) {
  const __m512 sum = _mm512_set1_ps(args.sum);
  for (int d = 0; d < args.head_dim; d += 16) {
    const __mmask16 mask = RowMask(args.head_dim - d);
    const __m512 value = args.sum == 0.0F ? _mm512_setzero_ps() : _mm512_div_ps(_mm512_load_ps(args.o + d), sum);
    if (args.out_dtype == DType::kF32) {
      _mm512_mask_storeu_ps(static_cast<float*>(args.out) + d, mask, value);
    } else {
      const __m256i halves = args.out_dtype == DType::kF16
                                 ? _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                                 : HighHalves(RoundBf16(value));
      _mm256_mask_storeu_epi16(static_cast<uint16_t*>(args.out) + d, mask, halves);
    }
  }
}

}  // namespace dunlin::kernels::cpu::avx512
