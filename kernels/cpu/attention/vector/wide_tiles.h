// SPDX-License-Identifier: Apache-2.0
// A tile for many rows: panel by panel its keys or values are widened to floats, into 16 KB that stay in L1, and every
// group of rows reads them there. The chains are those of vector/tiles.h, so that a row has the same bits in both.
// Included by the vector files only; templates over their types or always inlined.
//
// A panel: keys [depth][columns], values [kTileKeys][columns], columns = 16 * kWideVectors; values have zeros past
// head_dim. Of AVX-512 a step is 10 loads, 8 multiply-adds that load and 16 that do not, of AVX2 8 loads for 12.
// The kernels are the same for every KV dtype, so that a file of their own holds them (wide_kernels.h).
#pragma once

#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/attention/vector/wide_kernels.h"

namespace dunlin::kernels::cpu::attention {

// The table's part: widening. The kernels of a panel prefetch into L1 what the next one is widened from, of this tile
// or the next.
template <typename Keys>
void ScoreWidened(const ScoreArgs& args) {
  using Lanes = typename Keys::Lanes;
  constexpr int kVectors = Lanes::kWideVectors;
  constexpr int kPages = Keys::kPages * kVectors / 4 > 0 ? Keys::kPages * kVectors / 4 : 1;
  const int seen = args.valid == nullptr ? kTileKeys : args.valid[args.rows - 1];
  const int64_t steps = Keys::Steps(args.head_dim);
  alignas(64) float scales[16 * kVectors];
  for (int panel = 0; panel * 16 * kVectors < seen; ++panel) {
    const int first = panel * kVectors;
    float* out = args.wide;
    for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 2
      for (int part = 0; part < Keys::kParts; ++part, out += 16 * kVectors) {
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) {
          Lanes::Store(out + 16 * c, Keys::Load(args.keys, first + c, step, part));
        }
      }
    }
    if constexpr (Keys::kScalesKeys) {
      for (int c = 0; c < kVectors; ++c) {
        Lanes::Store(scales + 16 * c, Keys::Scale(args.keys, first + c, args.head_dim));
      }
    }
    const bool last = (panel + 1) * 16 * kVectors >= seen;
    const PrefetchSource next = {.blocks = last ? args.next : args.keys + Keys::kPages * (first + kVectors) / 4,
                                 .num_blocks = last && args.next == args.keys ? 0 : kPages,
                                 .runs = 1,
                                 .run_bytes = steps * Keys::kStepBytes,
                                 .run_stride = 0,
                                 .start = 0};
    Lanes::kWideScores(args, panel, static_cast<int>(steps) * Keys::kParts, Keys::kScalesKeys ? scales : nullptr, next);
  }
}

// Vectors first..first + kVectors - 1 of the dimensions of all keys that a row sees.
template <typename Values, int kVectors>
DUNLIN_INLINE void WidenValues(const ValueArgs& args, int first) {
  using Lanes = typename Values::Lanes;
  const int64_t step_bytes = Values::StepBytes(args.head_dim);
  const int64_t start = 16 * first * Values::kDimBytes;
  const int seen = args.valid[args.rows - 1];
  const auto all = Lanes::FirstLanes(16);
  const auto last = Lanes::FirstLanes(args.head_dim - 16 * (first + kVectors - 1));
  float* out = args.wide;
  for (int page = 0; page * Values::kTokens < seen; ++page) {
    const std::byte* block = args.values[page];
    for (int slot = 0; slot < Values::kTokens; slot += Values::kKeys) {
      const int64_t offset = slot / Values::kKeys * step_bytes;
#pragma GCC unroll 2
      for (int part = 0; part < Values::kParts; ++part, out += 16 * Lanes::kWideVectors) {
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) {
          const auto value = Values::Load(block + start + offset, part, c, c + 1 == kVectors ? last : all);
          Lanes::Store(out + 16 * c, Values::ScaleValue(block, slot, args.head_dim, value));
        }
      }
    }
  }
}

template <typename Values>
void AddWidenedValues(const ValueArgs& args) {
  constexpr int kVectors = Values::Lanes::kWideVectors;
  for (int panel = 0; panel * 16 * kVectors < args.head_dim; ++panel) {
    if (args.head_dim - panel * 16 * kVectors > 16 * (kVectors - 1)) {
      WidenValues<Values, kVectors>(args, panel * kVectors);
    } else {
      WidenValues<Values, 1>(args, panel * kVectors);
    }
    const bool last = (panel + 1) * 16 * kVectors >= args.head_dim;
    const PrefetchSource next = {
        .blocks = last ? args.next : args.values,
        .num_blocks = last && args.next == args.values ? 0 : (args.valid[args.rows - 1] - 1) / Values::kTokens + 1,
        .runs = Values::kTokens / Values::kKeys,
        .run_bytes = kVectors * 16 * Values::kDimBytes,
        .run_stride = Values::StepBytes(args.head_dim),
        .start = last ? 0 : (panel + 1) * kVectors * 16 * Values::kDimBytes};
    Values::Lanes::kWideValues(args, panel, next);
  }
}

// The kernels' part. Rows r and r + 1 of three are reached by stride, so that 12 rows need 5 registers for addresses.
template <int kRows>
struct RowPointers {
  __attribute__((always_inline)) RowPointers(const float* first, int64_t row_stride) : stride(row_stride) {
#pragma GCC unroll 4
    for (int i = 0; i < kThirds; ++i) third[i] = first + 3 * i * row_stride;
  }
  __attribute__((always_inline)) const float* Row(int r) const {
    return third[r / 3] + r % 3 * stride;
  }
  __attribute__((always_inline)) void Advance(int n) {
#pragma GCC unroll 4
    for (int i = 0; i < kThirds; ++i) third[i] += n;
  }
  static constexpr int kThirds = (kRows + 2) / 3;
  const float* third[kThirds];
  int64_t stride;
};

// One step of the chains of rows kFirst.. of a group: sum[r] += rows[r][step] * panel[step].
template <typename Lanes, int kRows, int kVectors, int kFirst>
DUNLIN_INLINE void AddStep(const RowPointers<kRows>& rows, int step, const float* panel,
                           typename Lanes::Floats (&sum)[kRows][kVectors]) {
  typename Lanes::Floats column[kVectors];
#pragma GCC unroll 2
  for (int c = 0; c < kVectors; ++c) column[c] = Lanes::Load(panel + step * 16 * Lanes::kWideVectors + 16 * c);
#pragma GCC unroll 12
  for (int r = kFirst; r < kRows; ++r) {
    if constexpr (Lanes::kBroadcastsInside) {
      if (r % 3 == 0) {
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c)
          sum[r][c] = Lanes::AccumulateBroadcast(sum[r][c], rows.Row(r) + step, column[c]);
        continue;
      }
    }
    const auto factor = Lanes::ToFactor(rows.Row(r)[step]);
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Accumulate(sum[r][c], factor, column[c]);
  }
}

// `count` steps of all rows; moves rows and panel on.
template <typename Lanes, int kRows, int kVectors>
DUNLIN_INLINE void AddSteps(RowPointers<kRows>* rows, const float** panel, int count,
                            typename Lanes::Floats (&sum)[kRows][kVectors]) {
  for (; count >= 4; count -= 4) {
#pragma GCC unroll 4
    for (int step = 0; step < 4; ++step) AddStep<Lanes, kRows, kVectors, 0>(*rows, step, *panel, sum);
    rows->Advance(4);
    *panel += 4 * 16 * Lanes::kWideVectors;
  }
  for (; count > 0; --count) {
    AddStep<Lanes, kRows, kVectors, 0>(*rows, 0, *panel, sum);
    rows->Advance(1);
    *panel += 16 * Lanes::kWideVectors;
  }
}

// Scores of kRows rows for one panel of keys.
template <typename Lanes, int kRows>
DUNLIN_INLINE void ScorePanel(const float* q, int64_t q_stride, const float* panel, int depth, const float* scales,
                              float* s, int64_t s_stride) {
  constexpr int kVectors = Lanes::kWideVectors;
  typename Lanes::Floats sum[kRows][kVectors];
  RowPointers<kRows> rows(q, q_stride);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Zero();
  }
  AddSteps<Lanes, kRows, kVectors>(&rows, &panel, depth, sum);
#pragma GCC unroll 2
  for (int c = 0; c < kVectors; ++c) {
    const auto scale = scales == nullptr ? Lanes::Broadcast(1.0F) : Lanes::Load(scales + 16 * c);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      if (scales != nullptr) sum[r][c] = Lanes::Mul(sum[r][c], scale);
      Lanes::Store(s + r * s_stride + 16 * c, sum[r][c]);
    }
  }
}

// The keys from `key` on that row kFirst - 1 of the group no longer sees, but row kFirst does.
template <typename Lanes, int kRows, int kVectors, int kFirst>
DUNLIN_INLINE void AddTails(RowPointers<kRows>* rows, const float* panel, const int32_t* valid, int32_t key,
                            typename Lanes::Floats (&sum)[kRows][kVectors]) {
  if constexpr (kFirst < kRows) {
    for (; key < valid[kFirst]; ++key) {
      AddStep<Lanes, kRows, kVectors, kFirst>(*rows, 0, panel, sum);
      rows->Advance(1);
      panel += 16 * Lanes::kWideVectors;
    }
    AddTails<Lanes, kRows, kVectors, kFirst + 1>(rows, panel, valid, key, sum);
  }
}

// O of kRows rows and kVectors vectors of one panel of values. alpha: null for 1.
template <typename Lanes, int kRows, int kVectors>
DUNLIN_INLINE void ValuePanel(const float* p, int64_t p_stride, const int32_t* valid, const float* alpha,
                              const float* panel, float* o, int64_t o_stride) {
  typename Lanes::Floats sum[kRows][kVectors];
  RowPointers<kRows> rows(p, p_stride);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const auto rescale = Lanes::Broadcast(alpha == nullptr ? 1.0F : alpha[r]);
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Mul(Lanes::Load(o + r * o_stride + 16 * c), rescale);
  }
  AddSteps<Lanes, kRows, kVectors>(&rows, &panel, valid[0], sum);
  if (valid[kRows - 1] > valid[0]) AddTails<Lanes, kRows, kVectors, 1>(&rows, panel, valid, valid[0], sum);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) Lanes::Store(o + r * o_stride + 16 * c, sum[r][c]);
  }
}

template <typename Lanes, int kRows>
void ScorePanels(const ScoreArgs& args, int row, int panel, int depth, const float* scales) {
  if (args.valid != nullptr && args.valid[row + kRows - 1] <= panel * 16 * Lanes::kWideVectors) return;
  const auto* q = reinterpret_cast<const float*>(args.q + row * args.q_stride);
  ScorePanel<Lanes, kRows>(q, args.q_stride / 4, args.wide, depth, scales,
                           args.s + row * args.s_stride + panel * 16 * Lanes::kWideVectors, args.s_stride);
}

template <typename Lanes, int kRows>
void ValuePanels(const ValueArgs& args, int row, int panel) {
  const int dim = panel * 16 * Lanes::kWideVectors;
  const float* p = static_cast<const float*>(args.p) + row * args.p_stride;
  const float* alpha = args.alpha == nullptr ? nullptr : args.alpha + row;
  float* o = args.o + row * args.o_stride + dim;
  const int32_t* valid = args.valid + row;
  if constexpr (Lanes::kWideVectors == 2) {
    if (args.head_dim - dim <= 16) {
      return ValuePanel<Lanes, kRows, 1>(p, args.p_stride, valid, alpha, args.wide, o, args.o_stride);
    }
  }
  ValuePanel<Lanes, kRows, Lanes::kWideVectors>(p, args.p_stride, valid, alpha, args.wide, o, args.o_stride);
}

// Calls body.operator()<kRows>(row) for groups of kWideRows rows and for the rest.
template <int kRows, typename Body>
DUNLIN_INLINE void ForRest(int rest, int row, const Body& body) {
  if constexpr (kRows > 0) {
    if (rest == kRows) return body.template operator()<kRows>(row);
    ForRest<kRows - 1>(rest, row, body);
  }
}
template <typename Lanes, typename Body>
DUNLIN_INLINE void ForRowGroups(int rows, const Body& body) {
  constexpr int kRows = Lanes::kWideRows;
  int row = 0;
  for (; row + kRows <= rows; row += kRows) body.template operator()<kRows>(row);
  ForRest<kRows - 1>(rows - row, row, body);
}

template <typename Lanes>
DUNLIN_INLINE void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales,
                              const PrefetchSource& next) {
  PrefetchStream<false> prefetches(next, (args.rows + Lanes::kWideRows - 1) / Lanes::kWideRows);
  ForRowGroups<Lanes>(
      args.rows, [&]<int kRows>(int row) __attribute__((always_inline)) {
        prefetches.NextShare();
        ScorePanels<Lanes, kRows>(args, row, panel, depth, scales);
      });
}

template <typename Lanes>
DUNLIN_INLINE void WideValues(const ValueArgs& args, int panel, const PrefetchSource& next) {
  PrefetchStream<false> prefetches(next, (args.rows + Lanes::kWideRows - 1) / Lanes::kWideRows);
  ForRowGroups<Lanes>(
      args.rows, [&]<int kRows>(int row) __attribute__((always_inline)) {
        prefetches.NextShare();
        ValuePanels<Lanes, kRows>(args, row, panel);
      });
}

}  // namespace dunlin::kernels::cpu::attention
