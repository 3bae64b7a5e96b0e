// SPDX-License-Identifier: Apache-2.0
// Scores and values of BF16 pages by the BF16 dot product: the chains of vector/tiles.h, shaped for processors that
// start two such products a cycle (Zen 5). Included by the files of that product's tables only, which have the same
// flags (CMakeLists.txt); templates over a file's own types or always inlined.
//
// Rows lie a stride apart and are reached by two pointers, so that 24 sums leave registers for all addresses.
// Instantiations of a table: 14 score kernels and 28 value kernels for few rows, 12 and 18 for many.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/vector/prefetch.h"
#include "kernels/cpu/attention/vector/tiles.h"

namespace dunlin::kernels::cpu::bf16_dot {

using attention::LinesOfBlocks;
using attention::PrefetchLine;
using attention::PrefetchStream;

inline constexpr int kPageTokens = 16;
inline constexpr int kTilePages = kTileKeys / kPageTokens;
inline constexpr int kPagePairs = kPageTokens / 2;
inline constexpr int kGroup = 6;  // rows whose sums fill the registers with four vectors

// Pages whose keys few rows read side by side, and vectors of values beside so many rows: 24 sums leave registers for
// the rows.
constexpr int KeyPagesOf(int rows) {
  return rows <= kGroup ? 4 : 2;
}
constexpr int VectorsOf(int rows) {
  return rows == 1 ? 8 : KeyPagesOf(rows);
}

DUNLIN_INLINE __m512bh LoadPairs(const std::byte* p) {
  return (__m512bh)_mm512_loadu_si512(p);
}
DUNLIN_INLINE __m512bh BroadcastPair(const std::byte* p) {
  return (__m512bh)_mm512_set1_epi32(*reinterpret_cast<const int32_t*>(p));
}
// sum + row * the line in memory, one instruction: reading at memory's pace, a core sees as many lines as it holds
// instructions (448 on Zen 5), and a load for all rows apart costs a place of it.
DUNLIN_INLINE __m512 DotLine(__m512 sum, __m512bh row, const std::byte* line) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // which do not see what an asm reads
  return _mm512_dpbf16_ps(sum, row, LoadPairs(line));
#else
  asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "m"(*reinterpret_cast<const __m512i_u*>(line)));
  return sum;
#endif
}

// Rows of pairs: row r is r % 3 strides behind the pointer r / 3.
template <int kRows>
struct PairRows {
  __attribute__((always_inline)) PairRows(const std::byte* first, int64_t row_stride) : stride(row_stride) {
#pragma GCC unroll 4
    for (int i = 0; i < kThirds; ++i) third[i] = first + 3 * i * row_stride;
  }
  __attribute__((always_inline)) const std::byte* Row(int r) const {
    return third[r / 3] + r % 3 * stride;
  }
  __attribute__((always_inline)) void Advance(int64_t bytes) {
#pragma GCC unroll 4
    for (int i = 0; i < kThirds; ++i) third[i] += bytes;
  }
  static constexpr int kThirds = (kRows + 2) / 3;
  const std::byte* third[kThirds];
  int64_t stride;
};

// One step of all chains: sum[r][c] += rows[r] * line(c).
template <int kRows, int kVectors, typename Line>
DUNLIN_INLINE void AddStep(const PairRows<kRows>& rows, int offset, const Line& line, __m512 (&sum)[kRows][kVectors]) {
  __m512bh vectors[kVectors];
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) vectors[c] = LoadPairs(line(c));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512bh row = BroadcastPair(rows.Row(r) + offset);
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], row, vectors[c]);
  }
}

// What few rows prefetch at each line that they read: nothing, or the same line of the next pages.
enum class Prefetch { kNone, kIntoL1, kIntoL2 };

// The same step of few rows, out of memory; next(c) is the line to prefetch beside line(c). More rows than kGroup load
// a line once: an operand in memory for each of them keeps the load ports busy longer than the products take.
template <Prefetch kPrefetch, int kRows, int kVectors, typename Line, typename Next>
DUNLIN_INLINE void AddLines(const PairRows<kRows>& rows, int offset, const Line& line, const Next& next,
                            __m512 (&sum)[kRows][kVectors]) {
  constexpr bool kIntoL2 = kPrefetch == Prefetch::kIntoL2;
  if constexpr (kPrefetch == Prefetch::kNone || kRows > kGroup) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors && kPrefetch != Prefetch::kNone; ++c) PrefetchLine<kIntoL2>(next(c));
    return AddStep<kRows, kVectors>(rows, offset, line, sum);
  }
  __m512bh row[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) row[r] = BroadcastPair(rows.Row(r) + offset);
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) {
    PrefetchLine<kIntoL2>(next(c));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][c] = DotLine(sum[r][c], row[r], line(c));
  }
}

// kSteps steps along the dimensions of kVectors pages. next: the pages to prefetch, from byte `offset` on.
template <Prefetch kPrefetch, int kSteps, int kRows, int kVectors>
DUNLIN_INLINE void AddKeys(PairRows<kRows>* rows, const std::byte* (&keys)[kVectors], const std::byte* const* next,
                           int64_t offset, __m512 (&sum)[kRows][kVectors]) {
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const auto line = [&](int c) __attribute__((always_inline)) {
      return keys[c] + 64 * step;
    };
    const auto next_line = [&](int c) __attribute__((always_inline)) {
      return next[c] + offset + 64 * step;
    };
    AddLines<kPrefetch>(*rows, 4 * step, line, next_line, sum);
  }
  rows->Advance(4 * kSteps);
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) keys[c] += 64 * kSteps;
}

// Scores of kRows rows for the keys of pages `page` .. page + kVectors - 1. Keys: of the including file; kScalesKeys
// says whether each key's finished score is multiplied by Scale(block, head_dim).
template <typename Keys, int kRows, int kVectors, Prefetch kPrefetch>
void ScorePages(const ScoreArgs& args, int row, int page) {
  const int64_t steps = (args.head_dim + 1) / 2;
  const std::byte* const* next = args.next + page;
  PairRows<kRows> rows(args.q + row * args.q_stride, args.q_stride);
  const std::byte* keys[kVectors];
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) {
    keys[c] = args.keys[page + c];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][c] = _mm512_setzero_ps();
  }
  int64_t step = 0;
  for (; step + 4 <= steps; step += 4) AddKeys<kPrefetch, 4>(&rows, keys, next, step * 64, sum);
  for (; step < steps; ++step) AddKeys<kPrefetch, 1>(&rows, keys, next, step * 64, sum);
  if constexpr (Keys::kScalesKeys) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      const __m512 scale = Keys::Scale(args.keys[page + c], args.head_dim);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][c] = _mm512_mul_ps(sum[r][c], scale);
    }
  }
  float* s = args.s + row * args.s_stride + page * kPageTokens;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, s += args.s_stride) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) _mm512_store_ps(s + 16 * c, sum[r][c]);
  }
}

// The pages from `page` on that hold a key below `seen`, by kVectors, and by half as many where those are enough.
template <typename Keys, int kRows, int kVectors, Prefetch kPrefetch>
DUNLIN_INLINE void ScoreRow(const ScoreArgs& args, int row, int page, int seen) {
  for (; page < kTilePages && page * kPageTokens < seen; page += kVectors) {
    if constexpr (kVectors == 4 && kPrefetch == Prefetch::kNone) {
      if (seen - page * kPageTokens <= 2 * kPageTokens) return ScorePages<Keys, kRows, 2, kPrefetch>(args, row, page);
    }
    ScorePages<Keys, kRows, kVectors, kPrefetch>(args, row, page);
  }
}

// Calls body.operator()<count>() for 0 < count <= kMost.
template <int kMost, typename Body>
DUNLIN_INLINE void ForCount(int count, const Body& body) {
  if constexpr (kMost > 0) {
    if (count == kMost) return body.template operator()<kMost>();
    ForCount<kMost - 1>(count, body);
  }
}

// Keys that row `row` sees.
DUNLIN_INLINE int SeenBy(const ScoreArgs& args, int row) {
  return args.valid == nullptr ? kTileKeys : args.valid[row];
}

// The kHalf pages from `page` on for many rows, by groups, between which the stream goes on.
inline constexpr int kHalf = kTilePages / 2;

template <typename Keys, bool kIntoL2>
DUNLIN_INLINE void ScoreHalf(const ScoreArgs& args, int page, PrefetchStream<kIntoL2>* prefetches) {
  const auto keys_of = [&](int row) {
    const int seen = SeenBy(args, row);
    return seen < (page + kHalf) * kPageTokens ? seen : (page + kHalf) * kPageTokens;
  };
  int row = 0;
  for (; row + kGroup <= args.rows; row += kGroup) {
    prefetches->NextShare();
    ScoreRow<Keys, kGroup, 4, Prefetch::kNone>(args, row, page, keys_of(row + kGroup - 1));
  }
  ForCount<kGroup - 1>(
      args.rows - row, [&]<int kRows>() __attribute__((always_inline)) {
        ScoreRow<Keys, kRows, 4, Prefetch::kNone>(args, row, page, keys_of(row + kRows - 1));
      });
}

// Calls body.operator()<kRows, kPrefetch>() for rows <= kFewRows.
template <bool kIntoL2, typename Body>
DUNLIN_INLINE void ForFewRows(int rows, bool prefetches, const Body& body) {
  ForCount<kFewRows>(
      rows, [&]<int kRows>() __attribute__((always_inline)) {
        if (!prefetches) return body.template operator()<kRows, Prefetch::kNone>();
        body.template operator()<kRows, kIntoL2 ? Prefetch::kIntoL2 : Prefetch::kIntoL1>();
      });
}

template <typename Keys, bool kIntoL2>  // Keys: of the including file
void Scores(const ScoreArgs& args) {
  const bool has_next = args.next != args.keys;
  if (args.rows <= kFewRows) {
    return ForFewRows<kIntoL2>(
        args.rows, has_next, [&]<int kRows, Prefetch kPrefetch>() __attribute__((always_inline)) {
          ScoreRow<Keys, kRows, KeyPagesOf(kRows), kPrefetch>(args, 0, 0, SeenBy(args, kRows - 1));
        });
  }
  PrefetchStream<kIntoL2> prefetches(
      LinesOfBlocks(args.next, has_next ? kTilePages : 0, (args.head_dim + 1) / 2 * int64_t{64}),
      2 * (args.rows / kGroup));
  for (int page = 0; page < kTilePages; page += kHalf) ScoreHalf<Keys>(args, page, &prefetches);
}

// What is left of the keys where rows of a group end at different ones: each row's pairs, and the first of a pair that
// it sees half.
template <int kRows, int kVectors>
DUNLIN_INLINE void AddTail(const ValueArgs& args, int row, int64_t start, int64_t pair_bytes, int key,
                           __m512 (&sum)[kRows][kVectors]) {
  const int32_t* valid = args.valid + row;
  const auto* p = static_cast<const uint16_t*>(args.p) + row * args.p_stride;
  for (; key < valid[kRows - 1]; key += 2) {
    const std::byte* block = args.values[key / kPageTokens] + start + key % kPageTokens / 2 * pair_bytes;
    __m512i values[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) values[c] = _mm512_loadu_si512(block + 64 * c);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if (valid[r] <= key) continue;
      const __m512i seen = _mm512_set1_epi32(valid[r] == key + 1 ? 0xFFFF : -1);
      const __m512bh weight = BroadcastPair(reinterpret_cast<const std::byte*>(p + r * args.p_stride + key));
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) {
        sum[r][c] = _mm512_dpbf16_ps(sum[r][c], weight, (__m512bh)_mm512_and_si512(values[c], seen));
      }
    }
  }
}

// kPairs pairs of keys of a page. next: the same lines of the page to prefetch.
template <Prefetch kPrefetch, int kPairs, int kRows, int kVectors>
DUNLIN_INLINE void AddPairs(PairRows<kRows>* rows, const std::byte** block, const std::byte** next, int64_t pair_bytes,
                            __m512 (&sum)[kRows][kVectors]) {
#pragma GCC unroll 8
  for (int pair = 0; pair < kPairs; ++pair) {
    const auto line = [&](int c) __attribute__((always_inline)) {
      return *block + 64 * c;
    };
    const auto next_line = [&](int c) __attribute__((always_inline)) {
      return *next + 64 * c;
    };
    AddLines<kPrefetch>(*rows, 4 * pair, line, next_line, sum);
    *block += pair_bytes;
    *next += pair_bytes;
  }
  rows->Advance(4 * kPairs);
}

// O of kRows rows for kVectors * 16 dimensions from `dim` on.
template <int kRows, int kVectors, Prefetch kPrefetch>
void ValueBlock(const ValueArgs& args, int row, int dim) {
  const int64_t pair_bytes = args.head_dim * int64_t{4};
  const int64_t start = dim * int64_t{4};
  float* out = args.o + row * args.o_stride + dim;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 alpha = _mm512_set1_ps(args.alpha == nullptr ? 1.0F : args.alpha[row + r]);
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      sum[r][c] = _mm512_mul_ps(_mm512_load_ps(out + r * args.o_stride + 16 * c), alpha);
    }
  }
  PairRows<kRows> rows(static_cast<const std::byte*>(args.p) + row * args.p_stride * 2, args.p_stride * 2);
  const int whole = args.valid[row] / 2;  // pairs of keys that every row of the group sees
  int page = 0;
  for (; (page + 1) * kPagePairs <= whole; ++page) {
    const std::byte* block = args.values[page] + start;
    const std::byte* next = args.next[page] + start;
    AddPairs<kPrefetch, kPagePairs>(&rows, &block, &next, pair_bytes, sum);
  }
  const int rest = whole - page * kPagePairs;
  if (rest > 0) {
    const std::byte* block = args.values[page] + start;
    const std::byte* next = args.next[page] + start;
    for (int pair = 0; pair < rest; ++pair) AddPairs<kPrefetch, 1>(&rows, &block, &next, pair_bytes, sum);
  }
  AddTail<kRows, kVectors>(args, row, start, pair_bytes, 2 * whole, sum);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) _mm512_store_ps(out + r * args.o_stride + 16 * c, sum[r][c]);
  }
}

// Dimensions from `dim` on by kVectors vectors while there are as many, then by half as many.
template <int kRows, int kVectors, Prefetch kPrefetch>
DUNLIN_INLINE void ValueRow(const ValueArgs& args, int dim) {
  for (; args.head_dim - dim >= 16 * kVectors; dim += 16 * kVectors) {
    ValueBlock<kRows, kVectors, kPrefetch>(args, 0, dim);
  }
  if constexpr (kVectors > 1) {
    if (dim < args.head_dim) ValueRow<kRows, kVectors / 2, kPrefetch>(args, dim);
  }
}

template <int kVectors, bool kIntoL2>
DUNLIN_INLINE void ValueGroups(const ValueArgs& args, int dim, PrefetchStream<kIntoL2>* prefetches) {
  for (; args.head_dim - dim >= 16 * kVectors; dim += 16 * kVectors) {
    int row = 0;
    for (; row + kGroup <= args.rows; row += kGroup) {
      prefetches->NextShare();
      ValueBlock<kGroup, kVectors, Prefetch::kNone>(args, row, dim);
    }
    ForCount<kGroup - 1>(
        args.rows - row, [&]<int kRows>() __attribute__((always_inline)) {
          ValueBlock<kRows, kVectors, Prefetch::kNone>(args, row, dim);
        });
  }
  if constexpr (kVectors > 1) {
    if (dim < args.head_dim) ValueGroups<kVectors / 2>(args, dim, prefetches);
  }
}

// Values: the including file's loader, for rows with a first key and for dimensions that fill no vector.
template <typename Values, bool kIntoL2>
void AddValues(const ValueArgs& args) {
  if (args.begin != nullptr || args.head_dim % 16 != 0) return attention::AddValues<Values>(args);
  const bool has_next = args.next != args.values;
  if (args.rows <= kFewRows) {
    return ForFewRows<kIntoL2>(
        args.rows, has_next, [&]<int kRows, Prefetch kPrefetch>() __attribute__((always_inline)) {
          ValueRow<kRows, VectorsOf(kRows), kPrefetch>(args, 0);
        });
  }
  const int64_t shares = args.rows / kGroup * ((args.head_dim + 63) / 64);
  PrefetchStream<kIntoL2> prefetches(LinesOfBlocks(args.next, has_next ? kTilePages : 0, args.head_dim * int64_t{32}),
                                     shares);
  ValueGroups<4>(args, 0, &prefetches);
}

}  // namespace dunlin::kernels::cpu::bf16_dot
