// SPDX-License-Identifier: Apache-2.0
// AMX tiles of BF16 pages: both products by the tile registers, P in BF16, the rest by AVX-512. For head dimensions
// that are multiples of 32 (keys) and 16 (values).
//
// A tile register multiplies whatever it holds, so that what a row does not see must be a zero in P and no NaN in V.
// P's zeros reach to the end of the tile; V's keys that no row of the call sees are copied as zeros. A key that only
// some rows see stays; in the rare tile where one of those is infinite or NaN each row is computed alone, by the same
// products.
#include <algorithm>

#include "kernels/cpu/attention/amx/few_rows.h"
#include "kernels/cpu/attention/amx/products.h"
#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/avx512_bf16/probabilities.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {
namespace {

struct PairStep {
  using Lanes = avx512::TileLanes;
  using P = uint16_t;
  DUNLIN_INLINE __m512 ExpRow(const float* s, int count, float scale, float scaled_max, __m512 sum, uint16_t* p) {
    return RoundedExpRow<ReducedP>(s, count, scale, scaled_max, sum, p);
  }
};
using FloatValues = attention::Bf16Values<avx512::TileLanes>;

DUNLIN_INLINE void PrefetchToL2(const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

void Scores(const ScoreArgs& args) {
  if (args.rows <= kFewRows && args.wide != nullptr) {
    return amx::ForFewRows(args.rows, [&]<int kRows>() { amx::ScoreFewRows<kRows>(args); });
  }
  bool first_group = args.next != args.keys;
  amx::ForGroups(
      args.rows, [&](const amx::RowGroup& group) __attribute__((always_inline)) {
        const int last = group.row + group.low + group.high - 1;
        const int seen = args.valid == nullptr ? kTileKeys : args.valid[last];
        for (int page = 0; page * amx::kPageTokens < seen; page += 2) {
          if (first_group) {
            PrefetchToL2(args.next[page], args.head_dim * int64_t{32});
            PrefetchToL2(args.next[page + 1], args.head_dim * int64_t{32});
          }
          group.high > 0 ? amx::ScorePages<true>(args, group, page) : amx::ScorePages<false>(args, group, page);
        }
        first_group = false;
      });
  _tile_release();
}

// Zeros in P behind the row's keys, which the softmax writes up to a multiple of 32, to the end of its last tile.
void FillRow(uint16_t* p, int valid) {
  const int end = (valid + kTileKeys - 1) / kTileKeys * kTileKeys;
  for (int j = (valid + 31) / 32 * 32; j < end; j += 32) _mm512_storeu_si512(p + j, _mm512_setzero_si512());
}

// The keys that a call of values copies, and which of them every row sees.
struct KeyRange {
  int begin;
  int end;
  int all_begin;
  int all_end;
};

KeyRange RangeOf(const ValueArgs& args) {
  const int last = args.rows - 1;
  return {.begin = args.begin == nullptr ? 0 : args.begin[0],
          .end = args.valid[last],
          .all_begin = args.begin == nullptr ? 0 : args.begin[last],
          .all_end = args.valid[0]};
}

DUNLIN_INLINE bool HasInfinityOrNan(__m512i pairs) {
  const __m512i exponent = _mm512_set1_epi16(0x7F80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(pairs, exponent), exponent) != 0;
}

// Copies `tiles` tiles of 16 dimensions from tile `first` on, of the keys in range, in steps of 32 keys, zeros for the
// others. Returns whether what only some rows see is finite.
bool CopyPanel(const ValueArgs& args, const KeyRange& range, int first, int tiles, bool prefetch) {
  const size_t pair_bytes = static_cast<size_t>(args.head_dim) * 4;
  auto* out = reinterpret_cast<std::byte*>(args.wide);
  bool finite = true;
  const int first_step = range.begin / static_cast<int>(amx::kTileDepth);
  for (int step = first_step; step * amx::kTileDepth < range.end; ++step) {
    for (int pair = 0; pair < amx::kTileRows; ++pair) {
      const int key = step * static_cast<int>(amx::kTileDepth) + 2 * pair;
      const size_t offset = static_cast<size_t>(pair % 8) * pair_bytes + static_cast<size_t>(first) * 64;
      const std::byte* pairs = args.values[key / amx::kPageTokens] + offset;
      const bool whole = key >= range.all_begin && key + 2 <= range.all_end;
      std::byte* row = out + (static_cast<size_t>(step * amx::kPanelTiles * amx::kTileRows + pair)) * 64;
      if (prefetch) PrefetchToL2(args.next[key / amx::kPageTokens] + offset, tiles * 64);
      for (int tile = 0; tile < tiles; ++tile) {
        __m512i line = _mm512_loadu_si512(pairs + tile * 64);
        if (!whole) {
          line = amx::KeepKeys(line, key, range.begin, range.end);
          if (HasInfinityOrNan(line)) finite = false;
        }
        _mm512_store_si512(row + static_cast<size_t>(tile) * amx::kTileBytes, line);
      }
    }
  }
  return finite;
}

void RescaleRows(const ValueArgs& args, int first, int tiles) {
  if (args.alpha == nullptr) return;
  for (int r = 0; r < args.rows; ++r) {
    if (args.alpha[r] == 1.0F) continue;
    const __m512 alpha = _mm512_set1_ps(args.alpha[r]);
    float* o = args.o + r * args.o_stride + 16 * first;
    for (int tile = 0; tile < tiles; ++tile) {
      _mm512_store_ps(o + 16 * tile, _mm512_mul_ps(_mm512_load_ps(o + 16 * tile), alpha));
    }
  }
}

template <bool kHigh>
DUNLIN_INLINE void AddGroup(const ValueArgs& args, const amx::RowGroup& group, int first, int tiles, int first_step,
                            int end_step) {
  const auto* p = static_cast<const std::byte*>(args.p) + group.row * args.p_stride * 2;
  const auto p_bytes = static_cast<size_t>(args.p_stride) * 2;
  const auto* values = reinterpret_cast<const std::byte*>(args.wide);
  const auto o_bytes = static_cast<size_t>(args.o_stride) * sizeof(float);
  float* o = args.o + group.row * args.o_stride + 16 * first;
  int tile = 0;
  for (; tile + 2 <= tiles; tile += 2) {
    amx::AddProducts<kHigh, true>(p, p_bytes, values + static_cast<size_t>(tile) * amx::kTileBytes, first_step,
                                  end_step, o + 16 * tile, o_bytes);
  }
  if (tile < tiles) {
    amx::AddProducts<kHigh, false>(p, p_bytes, values + static_cast<size_t>(tile) * amx::kTileBytes, first_step,
                                   end_step, o + 16 * tile, o_bytes);
  }
}

void Values(const ValueArgs& args);

// Each row by itself: the keys that it does not see are then zeros.
void ValuesRowByRow(const ValueArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    ValueArgs one = args;
    one.p = static_cast<const uint16_t*>(args.p) + r * args.p_stride;
    one.rows = 1;
    one.valid = args.valid + r;
    one.begin = args.begin == nullptr ? nullptr : args.begin + r;
    one.alpha = args.alpha == nullptr ? nullptr : args.alpha + r;
    one.o = args.o + r * args.o_stride;
    Values(one);
  }
}

bool AllFinite(const ValueArgs& args, const KeyRange& range) {
  if (range.all_begin <= range.begin && range.all_end >= range.end) return true;
  const int tiles = args.head_dim / 16;
  for (int first = 0; first < tiles; first += amx::kPanelTiles) {
    if (!CopyPanel(args, range, first, std::min(amx::kPanelTiles, tiles - first), false)) return false;
  }
  return true;
}

void Values(const ValueArgs& args) {
  const KeyRange range = RangeOf(args);
  if (args.rows <= kFewRows) {
    if (range.begin != range.all_begin || range.end != range.all_end) return ValuesRowByRow(args);
    RescaleRows(args, 0, args.head_dim / 16);
    return amx::ForFewRows(args.rows, [&]<int kRows>() { amx::AddFewRows<kRows>(args, range.begin, range.end); });
  }
  if (!AllFinite(args, range)) return ValuesRowByRow(args);
  const int tiles = args.head_dim / 16;
  const int first_step = range.begin / static_cast<int>(amx::kTileDepth);
  for (int first = 0; first < tiles; first += amx::kPanelTiles) {
    const int count = std::min(amx::kPanelTiles, tiles - first);
    CopyPanel(args, range, first, count, true);
    RescaleRows(args, first, count);
    amx::TileFence();
    amx::ForGroups(
        args.rows, [&](const amx::RowGroup& group) __attribute__((always_inline)) {
          const int last = group.row + group.low + group.high - 1;
          const int end_step =
              (args.valid[last] + static_cast<int>(amx::kTileDepth) - 1) / static_cast<int>(amx::kTileDepth);
          group.high > 0 ? AddGroup<true>(args, group, first, count, first_step, end_step)
                         : AddGroup<false>(args, group, first, count, first_step, end_step);
        });
  }
  _tile_release();
}

void RunningSoftmax(const RunningSoftmaxArgs& args) {
  attention::RunningSoftmax<PairStep>(args);
  for (int r = 0; r < args.rows; ++r) FillRow(static_cast<uint16_t*>(args.p) + r * args.p_stride, args.valid[r]);
}

void ChunkSoftmax(const ChunkSoftmaxArgs& args) {
  attention::ChunkSoftmax<PairStep>(args);
  for (int r = 0; r < args.rows; ++r) FillRow(static_cast<uint16_t*>(args.p) + r * args.p_stride, args.valid[r]);
}

}  // namespace

const TileOps kAmxBf16Tiles = {.bf16_pairs = true,
                               .scales_p = false,
                               .score_rows = amx::kGroupRows,
                               .block_bytes = 0,
                               .load_query = attention::LoadQuery<PairStep>,
                               .store_output = attention::StoreOutput<PairStep>,
                               .scores = Scores,
                               .adjust_row = attention::AdjustRow<PairStep>,
                               .running_softmax = RunningSoftmax,
                               .chunk_softmax = ChunkSoftmax,
                               .full_softmax = attention::FullSoftmax<FloatValues>,
                               .values = Values,
                               .values_f32 = attention::AddValues<FloatValues>,
                               .merge = attention::Merge<PairStep>};

}  // namespace dunlin::kernels::cpu
