// SPDX-License-Identifier: Apache-2.0
// AVX-512 tiles of E4M3 pages, the codes widened to BF16 pairs by table and multiplied by the BF16 dot product. A key's
// scale multiplies its finished score. A value's scale is part of P (TileOps::scales_p), which is rounded to BF16, as
// queries are. MATH, which rounds neither, takes kAvx512F8Tiles. Dimensions of keys and of values are multiples of 64
// (TakesF8DotTiles).
#include <algorithm>

#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/avx512_bf16/f8_pairs.h"
#include "kernels/cpu/attention/avx512_bf16/loaders.h"
#include "kernels/cpu/attention/avx512_bf16/softmax.h"
#include "kernels/cpu/attention/avx512_bf16/tiles.h"
#include "kernels/cpu/attention/vector/tiles.h"

namespace dunlin::kernels::cpu {
namespace {

using bf16_dot::CodeScales;
using bf16_dot::kCodePages;
using bf16_dot::kCodeTokens;
using bf16_dot::Pairs;
using bf16_dot::Prefetch;
using bf16_dot::PrefetchLine;
using bf16_dot::PrefetchStream;

struct WidenedKeys : bf16_dot::WidenedKeys {};
struct WidenedValues : bf16_dot::PairValues {
  static constexpr bool kScalesP = true;
};

// Lines that few rows widen side by side; each is two vectors of sums a row. More rows fill the registers with one.
constexpr int LinesOf(int rows) {
  return rows <= 4 ? 2 : 1;
}

// The lines of the codes of the next tile's blocks.
DUNLIN_INLINE attention::PrefetchSource NextLines(const std::byte* const* next, bool has_next, int32_t head_dim) {
  return bf16_dot::LinesOfBlocks(next, has_next ? kCodePages : 0,
                                 static_cast<int64_t>(Fp8ScaleOffset(head_dim, kCodeTokens)));
}

// sum[r] += rows[r] * pairs, two vectors of sums from vector `at` on.
template <int kRows, int kVectors>
DUNLIN_INLINE void AddPairs(const __m512bh (&row)[kRows], const Pairs& pairs, int at, __m512 (&sum)[kRows][kVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r][at] = _mm512_dpbf16_ps(sum[r][at], row[r], (__m512bh)pairs.first);
    sum[r][at + 1] = _mm512_dpbf16_ps(sum[r][at + 1], row[r], (__m512bh)pairs.second);
  }
}

// Scores of kRows rows for the keys of pages `page` .. page + LinesOf(kRows) - 1 of codes.
template <int kRows, Prefetch kPrefetch>
void ScoreCodes(const ScoreArgs& args, int page) {
  constexpr int kLines = LinesOf(kRows);
  bf16_dot::PairRows<kRows> rows(args.q, args.q_stride);
  __m512 sum[kRows][2 * kLines];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 2 * kLines; ++c) sum[r][c] = _mm512_setzero_ps();
  }
  const std::byte* keys[kLines];
  const std::byte* next[kLines];
#pragma GCC unroll 2
  for (int i = 0; i < kLines; ++i) {
    keys[i] = args.keys[page + i];
    next[i] = args.next[page + i];
  }
  for (int64_t d = 0; d < args.head_dim; d += 2) {
    __m512bh row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = bf16_dot::BroadcastPair(rows.Row(r));
#pragma GCC unroll 2
    for (int i = 0; i < kLines; ++i) {
      if constexpr (kPrefetch != Prefetch::kNone) PrefetchLine<kPrefetch == Prefetch::kIntoL2>(next[i]);
      next[i] += 64;
      AddPairs(row, bf16_dot::LoadKeyPairs(keys[i]), 2 * i, sum);
      keys[i] += 64;
    }
    rows.Advance(4);
  }
  float* s = args.s + page * kCodeTokens;
#pragma GCC unroll 2
  for (int i = 0; i < kLines; ++i) {
    if constexpr (kPrefetch != Prefetch::kNone) {  // the scales
      PrefetchLine<kPrefetch == Prefetch::kIntoL2>(next[i]);
      PrefetchLine<kPrefetch == Prefetch::kIntoL2>(next[i] + 64);
    }
#pragma GCC unroll 2
    for (int c = 2 * i; c < 2 * i + 2; ++c) {
      const __m512 scale = CodeScales(args.keys[page + i], args.head_dim, c % 2 * 16);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) _mm512_store_ps(s + r * args.s_stride + 16 * c, _mm512_mul_ps(sum[r][c], scale));
    }
  }
}

template <bool kIntoL2>
void Scores(const ScoreArgs& args) {
  const bool has_next = args.next != args.keys;
  if (args.rows <= kFewRows) {
    return bf16_dot::ForFewRows<kIntoL2>(
        args.rows, has_next, [&]<int kRows, Prefetch kPrefetch>() __attribute__((always_inline)) {
          const int seen = bf16_dot::SeenBy(args, kRows - 1);
          for (int page = 0; page * kCodeTokens < seen; page += LinesOf(kRows)) {
            ScoreCodes<kRows, kPrefetch>(args, page);
          }
        });
  }
  ScoreArgs widened = args;
  const std::byte* keys[bf16_dot::kTilePages];
  for (int i = 0; i < bf16_dot::kTilePages; ++i) {
    keys[i] =
        reinterpret_cast<const std::byte*>(args.wide) + i % bf16_dot::kHalf * WidenedKeys::BlockBytes(args.head_dim);
  }
  widened.keys = keys;
  widened.next = keys;
  PrefetchStream<kIntoL2> prefetches(NextLines(args.next, has_next, args.head_dim), 2 * (args.rows / bf16_dot::kGroup));
  const int seen = bf16_dot::SeenBy(args, args.rows - 1);
  for (int page = 0; page < bf16_dot::kTilePages && page * bf16_dot::kPageTokens < seen; page += bf16_dot::kHalf) {
    bf16_dot::WidenKeys(args.keys + page / 2, args.head_dim, reinterpret_cast<std::byte*>(args.wide));
    bf16_dot::ScoreHalf<WidenedKeys>(widened, page, &prefetches);
  }
}

// O of kRows rows for kLines * 32 dimensions from `dim` on, of keys that all of them see.
template <int kRows, Prefetch kPrefetch>
void ValueCodes(const ValueArgs& args, int dim) {
  constexpr int kLines = LinesOf(kRows);
  float* out = args.o + dim;
  __m512 sum[kRows][2 * kLines];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 alpha = _mm512_set1_ps(args.alpha == nullptr ? 1.0F : args.alpha[r]);
#pragma GCC unroll 4
    for (int c = 0; c < 2 * kLines; ++c) {
      sum[r][c] = _mm512_mul_ps(_mm512_load_ps(out + r * args.o_stride + 16 * c), alpha);
    }
  }
  bf16_dot::PairRows<kRows> rows(static_cast<const std::byte*>(args.p), args.p_stride * 2);
  const int64_t row_bytes = args.head_dim;
  const int seen = args.valid[0];
  const auto add = [&](const std::byte* value, __mmask64 second) __attribute__((always_inline)) {
    __m512bh row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = bf16_dot::BroadcastPair(rows.Row(r));
    if constexpr (kLines == 2) {
      const __m512i firsts = _mm512_loadu_si512(value);
      const __m512i seconds = _mm512_maskz_loadu_epi8(second, value + row_bytes);
      AddPairs(row, bf16_dot::WidenLines(firsts, seconds, false), 0, sum);
      AddPairs(row, bf16_dot::WidenLines(firsts, seconds, true), 2, sum);
    } else {
      const auto half = [](const std::byte* at) __attribute__((always_inline)) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      };
      __m512i codes = _mm512_zextsi256_si512(half(value));
      codes = _mm512_mask_broadcast_i64x4(codes, static_cast<__mmask8>(second & 0xF0), half(value + row_bytes));
      AddPairs(row, bf16_dot::WidenHalves(codes), 0, sum);
    }
    rows.Advance(4);
  };
  for (int page = 0; page * kCodeTokens < seen; ++page) {
    const std::byte* value = args.values[page] + dim;
    const std::byte* next = args.next[page] + dim;
    const int left = std::min(seen - page * kCodeTokens, kCodeTokens);
    for (int key = 0; key + 2 <= left; key += 2) {
      if constexpr (kPrefetch != Prefetch::kNone) {
        constexpr bool kIntoL2 = kPrefetch == Prefetch::kIntoL2;
        if (kLines == 2 || dim % 64 == 0) PrefetchLine<kIntoL2>(next);
        if (kLines == 2 || dim % 64 != 0) PrefetchLine<kIntoL2>(next + row_bytes);
        next += 2 * row_bytes;
      }
      add(value, ~__mmask64{0});
      value += 2 * row_bytes;
    }
    if (left % 2 != 0) add(value, 0);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 2 * kLines; ++c) _mm512_store_ps(out + r * args.o_stride + 16 * c, sum[r][c]);
  }
}

template <bool kIntoL2>
void AddValues(const ValueArgs& args) {
  const bool has_next = args.next != args.values;
  if (args.rows <= kFewRows && args.begin == nullptr && args.valid[0] == args.valid[args.rows - 1]) {
    return bf16_dot::ForFewRows<kIntoL2>(
        args.rows, has_next, [&]<int kRows, Prefetch kPrefetch>() __attribute__((always_inline)) {
          for (int dim = 0; dim < args.head_dim; dim += 32 * LinesOf(kRows)) ValueCodes<kRows, kPrefetch>(args, dim);
        });
  }
  const std::byte* values[bf16_dot::kTilePages];
  for (int i = 0; i < bf16_dot::kTilePages; ++i) {
    values[i] = reinterpret_cast<const std::byte*>(args.wide) +
                i * bf16_dot::kPagePairs * WidenedValues::StepBytes(bf16_dot::kSliceDims);
  }
  ValueArgs slice = args;
  slice.values = values;
  slice.next = values;
  slice.head_dim = bf16_dot::kSliceDims;
  const int groups = args.begin != nullptr ? 0 : args.rows / bf16_dot::kGroup;  // each prefetches a share
  PrefetchStream<kIntoL2> prefetches(NextLines(args.next, has_next, args.head_dim),
                                     int64_t{std::max(groups, 1)} * (args.head_dim / bf16_dot::kSliceDims));
  for (int dim = 0; dim < args.head_dim; dim += bf16_dot::kSliceDims, slice.o += bf16_dot::kSliceDims) {
    bf16_dot::WidenValues(args.values, args.head_dim, dim, args.valid[args.rows - 1],
                          reinterpret_cast<std::byte*>(args.wide));
    if (groups == 0) prefetches.NextShare();
    if (slice.begin != nullptr) {
      attention::AddValues<WidenedValues>(slice);
    } else {
      bf16_dot::ValueGroups<4>(slice, 0, &prefetches);
    }
  }
}

template <bool kIntoL2>
constexpr TileOps Tiles() {
  return {.bf16_pairs = true,
          .scales_p = true,
          .score_rows = 48,  // 24 KB
          .block_bytes = 0,
          .load_query = bf16_dot::LoadQuery<WidenedValues>,
          .store_output = attention::StoreOutput<WidenedValues>,
          .scores = Scores<kIntoL2>,
          .adjust_row = attention::AdjustRow<WidenedValues>,
          .running_softmax = bf16_dot::RunningSoftmax<WidenedValues>,
          .chunk_softmax = bf16_dot::ChunkSoftmax<WidenedValues>,
          .full_softmax = nullptr,
          .values = AddValues<kIntoL2>,
          .values_f32 = nullptr,
          .merge = attention::Merge<WidenedValues>};
}

}  // namespace

const TileOps kAvx512F8DotTiles = Tiles<false>();
const TileOps kAvx512F8DotL2Tiles = Tiles<true>();

}  // namespace dunlin::kernels::cpu
