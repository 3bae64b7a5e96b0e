// SPDX-License-Identifier: Apache-2.0
// Weights of integers in groups. Integers of 8 bits are exact in BF16: codes become BF16 pairs by table.
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

// The BF16 of each INT4 code, twice: a lookup of words reads 5 bits, the fifth of which is the next code's.
struct NibbleWords {
  alignas(64) uint16_t bits[32];
};
constexpr NibbleWords MakeNibbleWords() {
  NibbleWords words{};
  for (int i = 0; i < 32; ++i) {
    const int code = i % 16 < 8 ? i % 16 : i % 16 - 16;
    words.bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(code)) >> 16);
  }
  return words;
}
constexpr NibbleWords kNibbleWords = MakeNibbleWords();

struct Int4Pairs {
  static constexpr int kSteps = 4;
  static constexpr int kUnits = 4;
  static constexpr int64_t kVectorBytes = 64;
  template <int kBits>
  DUNLIN_INLINE __m512 Pair(__m512i words) {
    const __m512i table = _mm512_load_si512(kNibbleWords.bits);
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

// A product reads its row's pair itself: no pair takes a register beside the sums.
template <simd::Locality kTarget, typename Codes, bool kWithZeroPoints, int kRows>
struct Grouped : PairProducts<kTarget> {
  struct Multiply : PairProducts<kTarget>::Multiply {
    static constexpr bool kFromMemory = true;
    DUNLIN_INLINE __m512 AddFrom(__m512 sum, const simd::AliasedFloat& pair, __m512 w) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they do not see what an asm reads
      return PairProducts<kTarget>::Multiply::Add(sum, _mm512_set1_ps(pair), w);
#else
      asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(pair));
      return sum;
#endif
    }
  };
  using Panel = Codes;
  using Widen = Codes;
  static constexpr int kRepeatedRows = kRows;
  static constexpr bool kGrouped = true;
  static constexpr bool kZeroPoints = kWithZeroPoints;
};
template <simd::Locality kTarget>
using Int8 = Grouped<kTarget, simd::CodesToPairs<Lanes, Int8ByLookup>, false, 0>;
template <simd::Locality kTarget>
using Int4 = Grouped<kTarget, Int4Pairs, true, 256>;

}  // namespace

void GemmInt8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int8<simd::kIntoL1>>::Run(block);
}
void GemmInt8L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int8<simd::kIntoL2>>::Run(block);
}
void GemmInt4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int4<simd::kIntoL1>>::Run(block);
}
void GemmInt4L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int4<simd::kIntoL2>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
