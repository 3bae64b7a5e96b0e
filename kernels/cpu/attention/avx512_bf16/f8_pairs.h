// SPDX-License-Identifier: Apache-2.0
// E4M3 blocks (kv_block.h) as BF16 pairs, exactly. 64 codes are widened at once: two dimensions of 32 keys, which are a
// line, or two keys' 32 dimensions; they become two vectors of pairs. Few rows do so in registers (f8.cc); for many
// rows a part of a tile is widened into scratch in the order of BF16 pages. Included by that file only; always inlined,
// so its code stays in it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/attention/avx512_bf16/loaders.h"
#include "kernels/cpu/attention/avx512_bf16/tiles.h"
#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cpu/simd/e4m3_avx512_vbmi.h"

namespace dunlin::kernels::cpu::bf16_dot {

inline constexpr int kCodeTokens = 32;  // of a page
inline constexpr int kCodePages = kTileKeys / kCodeTokens;
inline constexpr int kSliceDims = 64;  // of values, widened at once

// Where each byte that is looked up comes from: a pair's first of the first 32 bytes, its second of the others. In
// every 128-bit lane come four pairs of the first vector, then four of the second.
struct PairOrder {
  alignas(64) uint8_t of_half[64];  // 32 codes of either
  alignas(64) uint8_t of_line[64];  // 64 of either: those of the first 32; the others lie 32 behind
};
constexpr PairOrder MakePairOrder() {
  PairOrder order{};
  for (int i = 0; i < 64; ++i) {
    const int pair = i % 16 / 8 * 16 + i / 16 * 4 + i % 8 / 2;
    order.of_half[i] = static_cast<uint8_t>(i % 2 * 32 + pair);
    order.of_line[i] = static_cast<uint8_t>(i % 2 * 64 + pair);
  }
  return order;
}
inline constexpr PairOrder kPairOrder = MakePairOrder();

// 16 pairs of each of two vectors.
struct Pairs {
  __m512i first;
  __m512i second;
};

// half: 32 codes of the pairs' firsts, then of their seconds.
DUNLIN_INLINE Pairs WidenHalves(__m512i half) {
  Pairs pairs;
  avx512::LookUpCodes(_mm512_permutexvar_epi8(_mm512_load_si512(kPairOrder.of_half), half), pairs.first, pairs.second);
  return pairs;
}

// Of 64 codes of firsts and 64 of seconds the first 32 of each, or the last.
DUNLIN_INLINE Pairs WidenLines(__m512i firsts, __m512i seconds, bool last) {
  const __m512i low = _mm512_load_si512(kPairOrder.of_line);
  const __m512i order = last ? _mm512_or_si512(low, _mm512_set1_epi8(32)) : low;
  Pairs pairs;
  avx512::LookUpCodes(_mm512_permutex2var_epi8(firsts, order, seconds), pairs.first, pairs.second);
  return pairs;
}

// Two dimensions of a page's keys.
DUNLIN_INLINE Pairs LoadKeyPairs(const std::byte* line) {
  return WidenHalves(_mm512_loadu_si512(line));
}

DUNLIN_INLINE __m512 CodeScales(const std::byte* block, int head_dim, int first) {
  return _mm512_loadu_ps(block + Fp8ScaleOffset(head_dim, first));
}

// Widened keys: blocks of 16 as those of a BF16 page, the keys' scales behind them.
struct WidenedKeys : PairKeys {
  static constexpr bool kScalesKeys = true;
  DUNLIN_INLINE int64_t BlockBytes(int head_dim) { return (Steps(head_dim) + 1) * kStepBytes; }
  DUNLIN_INLINE __m512 Scale(const std::byte* block, int head_dim) {
    return _mm512_load_ps(block + Steps(head_dim) * kStepBytes);
  }
};

// Widens the two pages of codes that hold the keys of a half tile into four blocks from `out` on.
DUNLIN_INLINE void WidenKeys(const std::byte* const* pages, int head_dim, std::byte* out) {
  const int64_t block_bytes = WidenedKeys::BlockBytes(head_dim);
  for (int page = 0; page < kCodePages / 2; ++page, out += 2 * block_bytes) {
    const std::byte* line = pages[page];
    std::byte* first = out;
    for (int step = 0; step < head_dim / 2; ++step, line += 64, first += 64) {
      const Pairs pairs = LoadKeyPairs(line);
      _mm512_store_si512(first, pairs.first);
      _mm512_store_si512(first + block_bytes, pairs.second);
    }
    _mm512_store_ps(first, CodeScales(pages[page], head_dim, 0));
    _mm512_store_ps(first + block_bytes, CodeScales(pages[page], head_dim, 16));
  }
}

// Widens dimensions dim .. dim + kSliceDims - 1 of the first `keys` keys of a tile, and of one more where those are
// odd, into `out`: blocks of 16 keys as those of a BF16 page with kSliceDims dimensions.
DUNLIN_INLINE void WidenValues(const std::byte* const* pages, int head_dim, int dim, int keys, std::byte* out) {
  for (int key = 0; key < keys; key += 2) {
    const std::byte* row = pages[key / kCodeTokens] + key % kCodeTokens * int64_t{head_dim} + dim;
    const __m512i firsts = _mm512_loadu_si512(row);
    const __m512i seconds = _mm512_loadu_si512(row + head_dim);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const Pairs pairs = WidenLines(firsts, seconds, half == 1);
      _mm512_store_si512(out, pairs.first);
      _mm512_store_si512(out + 64, pairs.second);
      out += 128;
    }
  }
}

}  // namespace dunlin::kernels::cpu::bf16_dot
