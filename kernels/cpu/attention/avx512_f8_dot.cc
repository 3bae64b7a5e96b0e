// AVX-512 tiles of E4M3 pages, the codes widened to BF16 pairs by table and multiplied by the BF16 dot product. A key's
// scale multiplies its finished score. A value's scale is part of P (TileOps::scales_p), which is rounded to BF16, as
// queries are. MATH, which rounds neither, takes kAvx512F8Tiles. Dimensions of keys and of values are multiples of 64
// (TakesF8DotTiles).
#include <algorithm>

#include "kernels/cpu/attention/avx512_bf16_softmax.h"
#include "kernels/cpu/attention/avx512_bf16_step.h"
#include "kernels/cpu/attention/avx512_bf16_tiles.h"
#include "kernels/cpu/attention/avx512_f8_pairs.h"
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_tiles.h"

namespace dunlin::kernels::cpu {
namespace {

using dot::CodeScales;
using dot::kCodePages;
using dot::kCodeTokens;
using dot::Pairs;

struct WidenedKeys : dot::WidenedKeys {};
struct WidenedValues : dot::PairValues {
  static constexpr bool kScalesP = true;
};

// Lines that few rows widen side by side; each is two vectors of sums a row. More rows fill the registers with one.
constexpr int LinesOf(int rows) {
  return rows <= 4 ? 2 : 1;
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

using dot::Asks;

// What a stream asks for at a step that reads kLines lines. One line: of even eighths.
template <int kLines, Asks kAsks>
DUNLIN_INLINE void AskAtStep(int64_t step, AskStream* stream) {
  const int64_t rounds = stream->eighths * kLines / 2;  // in sixteen steps
  if ((step * rounds & 15) < rounds) dot::AskRound<kAsks == Asks::kStreamIntoL2, kRoundLines>(stream);
}

// Scores of kRows rows for the keys of pages `page` .. page + LinesOf(kRows) - 1 of codes.
template <int kRows, Asks kAsks>
void ScoreCodes(const ScoreArgs& args, int page) {
  constexpr int kLines = LinesOf(kRows);
  dot::PairRows<kRows> rows(args.q, args.q_stride);
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
  AskStream stream;  // in registers
  if constexpr (dot::Streams(kAsks)) stream = *args.stream;
  for (int64_t d = 0; d < args.head_dim; d += 2) {
    if constexpr (dot::Streams(kAsks)) AskAtStep<kLines, kAsks>(d / 2, &stream);
    __m512bh row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = dot::BroadcastPair(rows.Row(r));
#pragma GCC unroll 2
    for (int i = 0; i < kLines; ++i) {
      if constexpr (kAsks == Asks::kLines) {
        dot::Ask(next[i]);
        next[i] += 64;
      }
      AddPairs(row, dot::LoadKeyPairs(keys[i]), 2 * i, sum);
      keys[i] += 64;
    }
    rows.Advance(4);
  }
  if constexpr (dot::Streams(kAsks)) *args.stream = stream;
  float* s = args.s + page * kCodeTokens;
#pragma GCC unroll 2
  for (int i = 0; i < kLines; ++i) {
    if constexpr (kAsks == Asks::kLines) {
      dot::Ask(next[i]);
      dot::Ask(next[i] + 64);
    }
#pragma GCC unroll 2
    for (int c = 2 * i; c < 2 * i + 2; ++c) {
      const __m512 scale = CodeScales(args.keys[page + i], args.head_dim, c % 2 * 16);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) _mm512_store_ps(s + r * args.s_stride + 16 * c, _mm512_mul_ps(sum[r][c], scale));
    }
  }
}

void Scores(const ScoreArgs& args) {
  const bool asks = args.next != args.keys;
  if (args.rows <= dot::kFewRows) {
    return dot::ForCount<dot::kFewRows>(
        args.rows, [&]<int kRows>() __attribute__((always_inline)) {
          const int seen = dot::SeenBy(args, kRows - 1);
          dot::ForAsks(
              args.stream, asks, [&]<Asks kAsks>() __attribute__((always_inline)) {
                for (int page = 0; page * kCodeTokens < seen; page += LinesOf(kRows)) {
                  ScoreCodes<kRows, kAsks>(args, page);
                }
              });
        });
  }
  ScoreArgs widened = args;
  const std::byte* keys[dot::kTilePages];
  for (int i = 0; i < dot::kTilePages; ++i) {
    keys[i] = reinterpret_cast<const std::byte*>(args.wide) + i % dot::kHalf * WidenedKeys::BlockBytes(args.head_dim);
  }
  widened.keys = keys;
  widened.next = keys;
  dot::Asker<false> asker(asks ? args.next : nullptr, kCodePages,
                          static_cast<int64_t>(Fp8ScaleOffset(args.head_dim, kCodeTokens)),
                          2 * (args.rows / dot::kGroup));
  const int seen = dot::SeenBy(args, args.rows - 1);
  for (int page = 0; page < dot::kTilePages && page * dot::kPageTokens < seen; page += dot::kHalf) {
    dot::WidenKeys(args.keys + page / 2, args.head_dim, reinterpret_cast<std::byte*>(args.wide));
    dot::ScoreHalf<WidenedKeys>(widened, page, &asker);
  }
}

// O of kRows rows for kLines * 32 dimensions from `dim` on, of keys that all of them see.
template <int kRows, Asks kAsks>
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
  dot::PairRows<kRows> rows(static_cast<const std::byte*>(args.p), args.p_stride * 2);
  const int64_t row_bytes = args.head_dim;
  const int seen = args.valid[0];
  const auto add = [&](const std::byte* value, __mmask64 second) __attribute__((always_inline)) {
    __m512bh row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = dot::BroadcastPair(rows.Row(r));
    if constexpr (kLines == 2) {
      const __m512i firsts = _mm512_loadu_si512(value);
      const __m512i seconds = _mm512_maskz_loadu_epi8(second, value + row_bytes);
      AddPairs(row, dot::WidenLines(firsts, seconds, false), 0, sum);
      AddPairs(row, dot::WidenLines(firsts, seconds, true), 2, sum);
    } else {
      const auto half = [](const std::byte* at) __attribute__((always_inline)) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      };
      __m512i codes = _mm512_zextsi256_si512(half(value));
      codes = _mm512_mask_broadcast_i64x4(codes, static_cast<__mmask8>(second & 0xF0), half(value + row_bytes));
      AddPairs(row, dot::WidenHalves(codes), 0, sum);
    }
    rows.Advance(4);
  };
  AskStream stream;  // in registers
  if constexpr (dot::Streams(kAsks)) stream = *args.stream;
  for (int page = 0; page * kCodeTokens < seen; ++page) {
    const std::byte* value = args.values[page] + dim;
    const std::byte* next = args.next[page] + dim;
    const int left = std::min(seen - page * kCodeTokens, kCodeTokens);
    for (int key = 0; key + 2 <= left; key += 2) {
      if constexpr (dot::Streams(kAsks)) AskAtStep<kLines, kAsks>(key / 2, &stream);
      if constexpr (kAsks == Asks::kLines) {
        if (kLines == 2 || dim % 64 == 0) dot::Ask(next);
        if (kLines == 2 || dim % 64 != 0) dot::Ask(next + row_bytes);
        next += 2 * row_bytes;
      }
      add(value, ~__mmask64{0});
      value += 2 * row_bytes;
    }
    if (left % 2 != 0) add(value, 0);
  }
  if constexpr (dot::Streams(kAsks)) *args.stream = stream;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 2 * kLines; ++c) _mm512_store_ps(out + r * args.o_stride + 16 * c, sum[r][c]);
  }
}

void AddValues(const ValueArgs& args) {
  const bool asks = args.next != args.values;
  if (args.rows <= dot::kFewRows && args.begin == nullptr && args.valid[0] == args.valid[args.rows - 1]) {
    return dot::ForCount<dot::kFewRows>(
        args.rows, [&]<int kRows>() __attribute__((always_inline)) {
          dot::ForAsks(
              args.stream, asks, [&]<Asks kAsks>() __attribute__((always_inline)) {
                for (int dim = 0; dim < args.head_dim; dim += 32 * LinesOf(kRows)) ValueCodes<kRows, kAsks>(args, dim);
              });
        });
  }
  const std::byte* values[dot::kTilePages];
  for (int i = 0; i < dot::kTilePages; ++i) {
    values[i] =
        reinterpret_cast<const std::byte*>(args.wide) + i * dot::kPagePairs * WidenedValues::StepBytes(dot::kSliceDims);
  }
  ValueArgs slice = args;
  slice.values = values;
  slice.next = values;
  slice.head_dim = dot::kSliceDims;
  const int groups = args.begin != nullptr ? 0 : args.rows / dot::kGroup;  // that ask for a part each
  dot::Asker<false> asker(asks ? args.next : nullptr, kCodePages,
                          static_cast<int64_t>(Fp8ScaleOffset(args.head_dim, kCodeTokens)),
                          int64_t{std::max(groups, 1)} * (args.head_dim / dot::kSliceDims));
  for (int dim = 0; dim < args.head_dim; dim += dot::kSliceDims, slice.o += dot::kSliceDims) {
    dot::WidenValues(args.values, args.head_dim, dim, args.valid[args.rows - 1],
                     reinterpret_cast<std::byte*>(args.wide));
    if (groups == 0) asker.Part();
    if (slice.begin != nullptr) {
      vectors::AddValues<WidenedValues>(slice);
    } else {
      dot::ValueGroups<4>(slice, 0, &asker);
    }
  }
}

// Zen 5, docs/benchmarks.md: one thread reads the more the further ahead it asks, up to two tiles.
AskPlan PlanStream(int rows, int32_t head_dim) {
  if (rows > dot::kFewRows || head_dim % dot::kSliceDims != 0) return {};
  return LinesOf(rows) == 2 ? AskPlan{.ahead = 14, .eighths = 7} : AskPlan{.ahead = 12, .eighths = 6};
}
// Zen 4: more rows than one wait for their products.
AskPlan PlanStreamIntoL2(int rows, int32_t head_dim) {
  AskPlan plan = PlanStream(rows, head_dim);
  plan.into_l2 = rows == 1;
  return plan;
}

constexpr TileOps Tiles(AskPlan (*plan_asks)(int rows, int32_t head_dim)) {
  return {.bf16_pairs = true,
          .scales_p = true,
          .score_rows = 48,  // 24 KB
          .plan_asks = plan_asks,
          .near_rows = {},
          .round_rows = {},
          .block_bytes = 0,
          .load_query = dot::LoadQuery<WidenedValues>,
          .store_output = vectors::StoreOutput<WidenedValues>,
          .scores = Scores,
          .adjust_row = vectors::AdjustRow<WidenedValues>,
          .running_softmax = dot::RunningSoftmax<WidenedValues>,
          .chunk_softmax = dot::ChunkSoftmax<WidenedValues>,
          .full_softmax = nullptr,
          .values = AddValues,
          .values_f32 = nullptr,
          .merge = vectors::Merge<WidenedValues>};
}

}  // namespace

const TileOps kAvx512F8DotTiles = Tiles(PlanStream);
const TileOps kAvx512F8DotL2Tiles = Tiles(PlanStreamIntoL2);

}  // namespace dunlin::kernels::cpu
