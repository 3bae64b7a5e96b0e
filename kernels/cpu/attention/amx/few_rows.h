// SPDX-License-Identifier: Apache-2.0
// The products of products.h for up to eight rows without the tile registers: the same arithmetic by fused
// multiply-adds out of the pages, so that a row has the same bits in decode and in prefill. Few rows are bound by
// memory; a tile load waits for all of its lines, and values would be copied first: 0.5 to 0.7 of DRAM read instead of
// 0.8 to 1.1.
//
// A step of 32 products adds to a sum (even ones) + (odd ones), each a chain from +0 in ascending order, with denormal
// numbers as zeros on the way in and out.
// Source: Intel SDM volume 2, TDPBF16PS, with which a Sapphire Rapids agrees bit for bit. Included by the AMX file
// only.
#pragma once

#include "kernels/cpu/attention/amx/products.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu::amx {

inline constexpr int kStepPairs = static_cast<int>(kTileDepth / 2);

// Denormal numbers are zeros while it lives, as the tile registers take them.
class DenormalsAreZeros {
 public:
  DenormalsAreZeros() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040U); }
  ~DenormalsAreZeros() { _mm_setcsr(saved_); }
  DenormalsAreZeros(const DenormalsAreZeros&) = delete;
  DenormalsAreZeros& operator=(const DenormalsAreZeros&) = delete;

 private:
  unsigned saved_;
};

// BF16 rows, row_bytes apart, as floats: [row][step][16 even ones, 16 odd ones].
DUNLIN_INLINE void WidenRows(const void* rows, int64_t row_bytes, int count, int64_t steps, float* out) {
  for (int r = 0; r < count; ++r) {
    const std::byte* row = static_cast<const std::byte*>(rows) + r * row_bytes;
    for (int64_t step = 0; step < steps; ++step, out += 2 * kStepPairs) {
      const __m512i pairs = _mm512_loadu_si512(row + static_cast<size_t>(step) * kTileRowBytes);
      _mm512_store_ps(out, avx512::Lanes::FirstOfPairs(pairs));
      _mm512_store_ps(out + kStepPairs, avx512::Lanes::SecondOfPairs(pairs));
    }
  }
}

// Sums of kRows rows by kVectors vectors, and one step's even and odd products of them.
template <int kRows, int kVectors>
struct PairSums {
  __m512 sum[kRows][kVectors];
  __m512 even[kRows][kVectors];
  __m512 odd[kRows][kVectors];

  __attribute__((always_inline)) void ClearStep() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) even[r][c] = odd[r][c] = _mm512_setzero_ps();
    }
  }
  // factors: the first row's, of this pair; rows are factor_stride floats apart.
  __attribute__((always_inline)) void Add(int c, __m512i pairs, const float* factors, int64_t factor_stride) {
    const __m512 first = avx512::Lanes::FirstOfPairs(pairs);
    const __m512 second = avx512::Lanes::SecondOfPairs(pairs);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r][c] = _mm512_fmadd_ps(_mm512_set1_ps(factors[r * factor_stride]), first, even[r][c]);
      odd[r][c] = _mm512_fmadd_ps(_mm512_set1_ps(factors[r * factor_stride + kStepPairs]), second, odd[r][c]);
    }
  }
  __attribute__((always_inline)) void EndStep() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm512_add_ps(sum[r][c], _mm512_add_ps(even[r][c], odd[r][c]));
    }
  }
};

// Vectors beside so many rows: sums, even and odd ones fit 24 registers.
constexpr int VectorsOfRows(int rows) {
  return rows <= 2 ? 4 : rows <= 4 ? 2 : 1;
}

// Scores of kRows rows. args.wide: scratch for the queries.
template <int kRows>
void ScoreFewRows(const ScoreArgs& args) {
  constexpr int kPages = VectorsOfRows(kRows);
  const DenormalsAreZeros denormals_are_zeros;
  const int64_t steps = args.head_dim / kTileDepth;
  WidenRows(args.q, args.q_stride, kRows, steps, args.wide);
  const int seen = args.valid == nullptr ? kTileKeys : args.valid[kRows - 1];
  for (int page = 0; page * kPageTokens < seen; page += kPages) {
    PairSums<kRows, kPages> sums;
    sums.ClearStep();
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kPages; ++c) sums.sum[r][c] = _mm512_setzero_ps();
    }
    for (int64_t step = 0; step < steps; ++step) {
      const float* factors = args.wide + step * 2 * kStepPairs;
#pragma GCC unroll 2
      for (int pair = 0; pair < kStepPairs; ++pair) {
        const size_t offset = static_cast<size_t>(step) * kTileBytes + static_cast<size_t>(pair) * kTileRowBytes;
#pragma GCC unroll 4
        for (int c = 0; c < kPages; ++c) {
          __builtin_prefetch(args.next[page + c] + offset, 0, 2);
          sums.Add(c, _mm512_loadu_si512(args.keys[page + c] + offset), factors + pair, args.head_dim);
        }
      }
      sums.EndStep();
      sums.ClearStep();
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kPages; ++c) {
        _mm512_storeu_ps(args.s + r * args.s_stride + (page + c) * kPageTokens, sums.sum[r][c]);
      }
    }
  }
}

// A row of pairs with the tokens outside [begin, end) as zeros.
DUNLIN_INLINE __m512i KeepKeys(__m512i pairs, int key, int begin, int end) {
  const uint32_t even = key >= begin && key < end ? 0xFFFFU : 0U;
  const uint32_t odd = key + 1 >= begin && key + 1 < end ? 0xFFFF0000U : 0U;
  return _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(even | odd)));
}

// O of kRows rows and kTiles vectors of dimensions from vector `tile` on. All rows see the keys [begin, end). factors:
// their P by WidenRows.
template <int kRows, int kTiles>
DUNLIN_INLINE void AddFewRowsTiles(const ValueArgs& args, int tile, int begin, int end, const float* factors) {
  const size_t pair_bytes = static_cast<size_t>(args.head_dim) * 4;
  PairSums<kRows, kTiles> sums;
  float* o = args.o + 16 * tile;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTiles; ++c) sums.sum[r][c] = _mm512_load_ps(o + r * args.o_stride + 16 * c);
  }
  for (int first = begin / static_cast<int>(kTileDepth) * static_cast<int>(kTileDepth); first < end;
       first += static_cast<int>(kTileDepth)) {
    sums.ClearStep();
    const int from = first < begin ? (begin - first) / 2 : 0;
    const int to = end - first < static_cast<int>(kTileDepth) ? (end - first + 1) / 2 : kStepPairs;
    for (int pair = from; pair < to; ++pair) {
      const int key = first + 2 * pair;
      const bool cut = key < begin || key + 1 >= end;
      const size_t offset = static_cast<size_t>(pair % 8) * pair_bytes + static_cast<size_t>(tile) * kTileRowBytes;
      const std::byte* line = args.values[key / kPageTokens] + offset;
      const std::byte* next = args.next[key / kPageTokens] + offset;
#pragma GCC unroll 4
      for (int c = 0; c < kTiles; ++c) {
        __builtin_prefetch(next + c * 64, 0, 2);
        __m512i pairs = _mm512_loadu_si512(line + c * 64);
        if (cut) pairs = KeepKeys(pairs, key, begin, end);
        sums.Add(c, pairs, factors + first + pair, kTileKeys);
      }
    }
    sums.EndStep();
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTiles; ++c) _mm512_store_ps(o + r * args.o_stride + 16 * c, sums.sum[r][c]);
  }
}

// O of kRows rows that see the same keys. args.wide: scratch for their P. O is times alpha already.
template <int kRows>
void AddFewRows(const ValueArgs& args, int begin, int end) {
  constexpr int kTiles = VectorsOfRows(kRows);
  const DenormalsAreZeros denormals_are_zeros;
  WidenRows(args.p, args.p_stride * 2, kRows, kTileSteps, args.wide);
  const int tiles = args.head_dim / 16;
  int tile = 0;
  for (; tile + kTiles <= tiles; tile += kTiles) AddFewRowsTiles<kRows, kTiles>(args, tile, begin, end, args.wide);
  for (; tile < tiles; ++tile) AddFewRowsTiles<kRows, 1>(args, tile, begin, end, args.wide);
}

// Calls body.operator()<kRows>() for 1 <= rows <= kFewRows.
template <int kRows = kFewRows, typename Body>
DUNLIN_INLINE void ForFewRows(int rows, const Body& body) {
  if (rows == kRows) return body.template operator()<kRows>();
  if constexpr (kRows > 1) ForFewRows<kRows - 1>(rows, body);
}

}  // namespace dunlin::kernels::cpu::amx
