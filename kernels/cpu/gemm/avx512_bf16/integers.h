// SPDX-License-Identifier: Apache-2.0
// Integer codes as BF16 pairs, which hold 8 bits exactly, by table; products of groups of them.
// Translation units of this folder only.
#pragma once

#include "kernels/api/code_levels.h"
#include "kernels/cpu/gemm/avx512_bf16/products.h"
#include "kernels/cpu/simd/e4m3_avx512_vbmi.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

constexpr avx512::ByteTables kIntegers = avx512::MakeByteTables([](uint8_t magnitude) { return magnitude; });

struct Int8ByLookup {
  DUNLIN_INLINE void Widen(const std::byte* at, __m512i& first, __m512i& second) {
    __m512i codes = _mm512_loadu_si512(at);
    asm("" : "+v"(codes));  // one load, where the compiler would read the line for every use
    avx512::LookUpMagnitudes(kIntegers, _mm512_abs_epi8(codes), codes, first, second);
  }
};

// All 256 codes: of -128, whose magnitude has no entry, the high byte is put in.
struct FullInt8ByLookup {
  DUNLIN_INLINE void Widen(const std::byte* at, __m512i& first, __m512i& second) {
    __m512i codes = _mm512_loadu_si512(at);
    asm("" : "+v"(codes));  // as above
    const __m512i magnitudes = _mm512_abs_epi8(codes);
    const __m512i high =
        _mm512_permutex2var_epi8(_mm512_load_si512(kIntegers.high), magnitudes, _mm512_load_si512(kIntegers.high + 64));
    const __m512i low =
        _mm512_permutex2var_epi8(_mm512_load_si512(kIntegers.low), magnitudes, _mm512_load_si512(kIntegers.low + 64));
    const __m512i with_128 =
        _mm512_mask_mov_epi8(high, _mm512_movepi8_mask(magnitudes), _mm512_set1_epi8(0x43));  // BF16 128 is 0x4300
    constexpr int kOrOfAnd = 0xF0 | (0xCC & 0xAA);                                            // a | (b & c)
    const __m512i sign_bit = _mm512_set1_epi8(static_cast<char>(0x80));
    const __m512i with_sign = _mm512_ternarylogic_epi32(with_128, codes, sign_bit, kOrOfAnd);
    first = _mm512_unpacklo_epi8(low, with_sign);
    second = _mm512_unpackhi_epi8(low, with_sign);
  }
};

// The BF16 of integers of a few bits.
template <int kCount>
struct IntegerWords {
  alignas(64) uint16_t bits[kCount];
};
// bits[i]: of i modulo 2^code_bits, read as a signed or unsigned code.
template <int kCount>
constexpr IntegerWords<kCount> MakeIntegerWords(int code_bits, bool is_signed) {
  IntegerWords<kCount> words{};
  const int codes = 1 << code_bits;
  for (int i = 0; i < kCount; ++i) {
    const int code = i % codes - (is_signed && i % codes >= codes / 2 ? codes : 0);
    words.bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(code)) >> 16);
  }
  return words;
}
// A lookup of words reads 5 bits, the fifth of which is the next code's.
template <bool kSigned>
inline constexpr IntegerWords<32> kNibbleWords = MakeIntegerWords<32>(4, kSigned);
constexpr IntegerWords<32> MakeLevelWords(CodeLevels levels) {
  IntegerWords<32> words{};
  for (int i = 0; i < 32; ++i) {
    const auto value = static_cast<float>(RowOf(levels).values[i % 16]);
    words.bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
  return words;
}
template <CodeLevels kLevels>
inline constexpr IntegerWords<32> kLevelWords = MakeLevelWords(kLevels);
inline constexpr IntegerWords<64> kSixBitWords = MakeIntegerWords<64>(6, true);

// kWords: the BF16 of each code.
template <const IntegerWords<32>& kWords>
struct Int4Pairs {
  static constexpr int kSteps = 4;
  static constexpr int kUnits = 4;
  static constexpr int64_t kVectorBytes = 64;
  template <int kBits>
  DUNLIN_INLINE __m512 Pair(__m512i words) {
    const __m512i table = _mm512_load_si512(kWords.bits);
    return Lanes::AsFloats(_mm512_permutexvar_epi16(_mm512_srli_epi16(words, kBits), table));
  }
  DUNLIN_INLINE void Decode(const std::byte* at, __m512 (&pairs)[4]) {
    __m512i words = _mm512_loadu_si512(at);
    asm("" : "+v"(words));  // one load, as above
    pairs[0] = Pair<0>(words);
    pairs[1] = Pair<4>(words);
    pairs[2] = Pair<8>(words);
    pairs[3] = Pair<12>(words);
  }
};

struct Int6Pairs {
  static constexpr int kSteps = 8;
  static constexpr int kUnits = 8;
  static constexpr int64_t kVectorBytes = 3 * kSixBitWordStride;
  // The pair of the lowest 6 bits of the halves; the bits above are those of the next pairs.
  DUNLIN_INLINE __m512 Pair(__m512i words) {
    return Lanes::AsFloats(_mm512_permutex2var_epi16(_mm512_load_si512(kSixBitWords.bits), words,
                                                     _mm512_load_si512(kSixBitWords.bits + 32)));
  }
  DUNLIN_INLINE __m512i Load(const std::byte* at) {
    __m512i words = _mm512_loadu_si512(at);
    asm("" : "+v"(words));  // one load, as above
    return words;
  }
  DUNLIN_INLINE void Decode(const std::byte* at, __m512 (&pairs)[8]) {
    constexpr int kOrOfAnd = 0xF0 | (0xCC & 0xAA);  // a | (b & c)
    const __m512i first = Load(at);
    const __m512i second = Load(at + kSixBitWordStride);
    const __m512i third = Load(at + 2 * kSixBitWordStride);
    __m512i rest = _mm512_srli_epi16(first, 12);
    rest = _mm512_ternarylogic_epi32(rest, _mm512_srli_epi16(second, 8), _mm512_set1_epi16(0x00F0), kOrOfAnd);
    rest = _mm512_ternarylogic_epi32(rest, _mm512_srli_epi16(third, 4), _mm512_set1_epi16(0x0F00), kOrOfAnd);
    pairs[0] = Pair(first);
    pairs[1] = Pair(_mm512_srli_epi16(first, 6));
    pairs[2] = Pair(second);
    pairs[3] = Pair(_mm512_srli_epi16(second, 6));
    pairs[4] = Pair(third);
    pairs[5] = Pair(_mm512_srli_epi16(third, 6));
    pairs[6] = Pair(rest);
    pairs[7] = Pair(_mm512_srli_epi16(rest, 6));
  }
};

// Codes of a format as pairs. A word of a rounded weight never has -128.
template <WeightFormat kFormat>
constexpr auto MakePairs() {
  constexpr const WeightFormatTraits& kTraits = Traits(kFormat);
  if constexpr (kTraits.levels != CodeLevels::kIntegers) {
    return Int4Pairs<kLevelWords<kTraits.levels>>();
  } else if constexpr (kTraits.code_bits == 4) {
    return Int4Pairs<kNibbleWords<UnsignedBias(kFormat) != 0>>();
  } else if constexpr (kTraits.code_bits == 6) {
    return Int6Pairs();
  } else if constexpr (kTraits.scales == GroupScales::kWord) {
    return simd::CodesToPairs<Lanes, Int8ByLookup>();
  } else {
    return simd::CodesToPairs<Lanes, FullInt8ByLookup>();
  }
}

// A product reads its row's pair itself: no pair takes a register beside the sums. Of codes of 6 bits fewer rows to a
// tile: eight decoded pairs take registers.
template <WeightFormat kFormat>
struct Grouped : PairProducts<simd::kIntoL1> {
  struct Multiply : PairProducts<simd::kIntoL1>::Multiply {
    static constexpr bool kFromMemory = true;
    DUNLIN_INLINE __m512 AddFrom(__m512 sum, const simd::AliasedFloat& pair, __m512 w) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they do not see what an asm reads
      return PairProducts<simd::kIntoL1>::Multiply::Add(sum, _mm512_set1_ps(pair), w);
#else
      asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(pair));
      return sum;
#endif
    }
  };
  using Panel = decltype(MakePairs<kFormat>());
  using Widen = Panel;
  using Scales = simd::ScalesOf<Lanes, kFormat>;
  static constexpr int32_t kBits = Traits(kFormat).code_bits;
  static constexpr int kSmallMRows = kBits == 6 ? 4 : 8;
  static constexpr int kMaxSmallM = kBits == 4 ? 256 : kBits == 6 ? 8 : 0;
  static constexpr bool kGrouped = true;
};
// For MakeGemmKernels.
struct GroupedProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    simd::VectorGemm<Lanes, Grouped<kFormat>>::Run(block);
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx512_bf16
