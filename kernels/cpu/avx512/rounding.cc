// Rounding of rows to the small formats, bit for bit as kernels/api/float_formats.h: integer arithmetic, because the
// hardware's BF16 conversion takes subnormals for zero.
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

DUNLIN_LANE __m512i Constant(int value) {
  return _mm512_set1_epi32(value);
}

// magnitude + half a unit of the kept bits, ties to even: bits below `dropped` are then cut by the caller.
DUNLIN_LANE __m512i RoundEven(__m512i bits, int dropped) {
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, static_cast<unsigned>(dropped)), Constant(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, Constant((1 << (dropped - 1)) - 1)), odd);
}

// |value| on the E4M3 grid as FP32 bits, saturated to 448; NaN lanes hold rubbish.
struct GridMagnitude {
  __m512i bits;
  __mmask16 is_nan;
};
DUNLIN_LANE GridMagnitude RoundToE4M3Grid(__m512 value) {
  const __m512i raw = Magnitude(value);
  const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(raw, Constant(0x7F800000));
  const __m512i magnitude = _mm512_min_epi32(raw, Constant(0x43E00000));  // 448
  const __m512i normal = _mm512_and_si512(RoundEven(magnitude, 20), Constant(~0xFFFFF));
  // Below 2^-6 the grid is the multiples of 2^-9.
  const __m512 small = _mm512_roundscale_ps(_mm512_castsi512_ps(magnitude), 9 << 4 | _MM_FROUND_TO_NEAREST_INT);
  const __mmask16 is_small = _mm512_cmplt_epi32_mask(magnitude, Constant(121 << 23));
  return {_mm512_mask_mov_epi32(normal, is_small, _mm512_castps_si512(small)), is_nan};
}

DUNLIN_LANE __m512i SignBits(__m512 value) {
  return _mm512_and_si512(_mm512_castps_si512(value), Constant(static_cast<int>(0x80000000)));
}

// value rounded to BF16 in the high half of each lane; the low half is rubbish.
DUNLIN_LANE __m512i RoundToBf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(Magnitude(value), Constant(0x7F800000));
  return _mm512_mask_or_epi32(RoundEven(bits, 16), is_nan, bits, Constant(0x00400000));  // a quiet NaN, payload kept
}

// value rounded to E4M3 as FP32 bits.
DUNLIN_LANE __m512i RoundToE4M3(__m512 value) {
  const GridMagnitude grid = RoundToE4M3Grid(value);
  return _mm512_or_si512(_mm512_mask_mov_epi32(grid.bits, grid.is_nan, Constant(0x7FC00000)), SignBits(value));
}

DUNLIN_LANE __m512 LoadScaled(const float* in, __mmask16 mask, float factor) {
  return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, in), _mm512_set1_ps(factor));
}

}  // namespace

void ToBf16(const float* in, int64_t n, uint16_t* out) {
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512i rounded = RoundToBf16(_mm512_maskz_loadu_ps(mask, in + i));
    _mm512_mask_cvtepi32_storeu_epi16(out + i, mask, _mm512_srli_epi32(rounded, 16));
  });
}

void Bf16RowOfBf16(const float* in, int64_t n, void* row) {
  ToBf16(in, n, static_cast<uint16_t*>(row));
}

void Bf16RowOfFloats(const float* in, int64_t n, void* row) {
  auto* out = static_cast<float*>(row);
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512i rounded = RoundToBf16(_mm512_maskz_loadu_ps(mask, in + i));
    _mm512_mask_storeu_epi32(out + i, mask, _mm512_and_si512(rounded, Constant(~0xFFFF)));
  });
}

void ToFp16(const float* in, int64_t n, uint16_t* out) {
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512 value = _mm512_maskz_loadu_ps(mask, in + i);
    const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(Magnitude(value), Constant(0x7F800000));
    const __m512i half = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    const __m512i nan = _mm512_or_si512(_mm512_srli_epi32(SignBits(value), 16), Constant(0x7E00));
    _mm512_mask_cvtepi32_storeu_epi16(out + i, mask, _mm512_mask_mov_epi32(half, is_nan, nan));
  });
}

void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out) {
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512 value = LoadScaled(in + i, mask, factor);
    const GridMagnitude grid = RoundToE4M3Grid(value);
    const __m512i normal = _mm512_srli_epi32(_mm512_sub_epi32(grid.bits, Constant(120 << 23)), 20);
    const __m512i small = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(grid.bits), _mm512_set1_ps(512.0F)));
    const __mmask16 is_small = _mm512_cmplt_epi32_mask(grid.bits, Constant(121 << 23));
    __m512i code = _mm512_mask_mov_epi32(normal, is_small, small);
    code = _mm512_mask_mov_epi32(code, grid.is_nan, Constant(0x7F));
    code = _mm512_or_si512(code, _mm512_srli_epi32(SignBits(value), 24));
    _mm512_mask_cvtepi32_storeu_epi8(out + i, mask, code);
  });
}

void Fp8RowOfBf16(const float* in, float factor, int64_t n, void* row) {
  auto* out = static_cast<uint16_t*>(row);
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512i bits = RoundToE4M3(LoadScaled(in + i, mask, factor));
    _mm512_mask_cvtepi32_storeu_epi16(out + i, mask, _mm512_srli_epi32(bits, 16));
  });
}

void Fp8RowOfFloats(const float* in, float factor, int64_t n, void* row) {
  auto* out = static_cast<float*>(row);
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    _mm512_mask_storeu_epi32(out + i, mask, RoundToE4M3(LoadScaled(in + i, mask, factor)));
  });
}

}  // namespace dunlin::kernels::cpu::avx512
