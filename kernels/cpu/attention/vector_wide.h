// A tile for many rows: its keys or values are widened to floats once, into panels that stay in L1, and every group of
// rows reads them there. The chains are those of vector_tiles.h, so that a row has the same bits in both.
// Included by the vector files only; templates over their types or always inlined.
//
// Panels: keys [64 / columns][depth][columns], values [head_dim / columns][64][columns], columns = 16 * kWideVectors;
// the last panel of values has zeros past head_dim. Of AVX-512 a step is 14 loads for 24 multiply-adds, of AVX2 8
// for 12. The kernels are the same for every KV dtype, so that a file of their own holds them (wide.h).
#pragma once

#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/attention/wide.h"

namespace dunlin::kernels::cpu::vectors {

// The table's part: widening.
template <typename Keys>
void ScoreWidened(const ScoreArgs& args) {
  using Lanes = typename Keys::Lanes;
  constexpr int kColumns = 16 * Lanes::kWideVectors;
  const int seen = args.valid == nullptr ? kTileKeys : args.valid[args.rows - 1];
  const int64_t steps = Keys::Steps(args.head_dim);
  float* out = args.wide;
  alignas(64) float scales[kTileKeys];
  for (int panel = 0; panel * kColumns < seen; ++panel) {
    const int first = panel * Lanes::kWideVectors;
    for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 2
      for (int part = 0; part < Keys::kParts; ++part, out += kColumns) {
#pragma GCC unroll 2
        for (int c = 0; c < Lanes::kWideVectors; ++c) {
          Lanes::Store(out + 16 * c, Keys::Load(args.tile->keys, first + c, step, part));
        }
      }
    }
    if constexpr (Keys::kScalesKeys) {
      for (int c = 0; c < Lanes::kWideVectors; ++c) {
        Lanes::Store(scales + 16 * (first + c), Keys::Scale(args.tile->keys, first + c, args.head_dim));
      }
    }
  }
  Lanes::Wide::Scores(args, static_cast<int>(steps) * Keys::kParts, Keys::kScalesKeys ? scales : nullptr);
}

template <typename Values>
void AddWidenedValues(const ValueArgs& args) {
  using Lanes = typename Values::Lanes;
  constexpr int kColumns = 16 * Lanes::kWideVectors;
  const int64_t step_bytes = Values::StepBytes(args.head_dim);
  const int seen = args.valid[args.rows - 1];
  for (int key = 0; key < seen; key += Values::kKeys) {
    const std::byte* page = args.tile->values[key / Values::kTokens];
    const std::byte* step = page + key % Values::kTokens / Values::kKeys * step_bytes;
    for (int dim = 0; dim < args.head_dim; dim += 16) {
      float* out = args.wide + (dim / kColumns * kTileKeys + key) * kColumns + dim % kColumns;
      const auto tail = Lanes::TailOf(args.head_dim - dim);
#pragma GCC unroll 2
      for (int part = 0; part < Values::kParts; ++part) {
        Lanes::Store(out + part * kColumns,
                     Values::ScaleValue(page, key % Values::kTokens, args.head_dim,
                                        Values::Load(step + dim * Values::kDimBytes, part, 0, tail)));
      }
    }
  }
  Lanes::Wide::Values(args);
}

// The kernels' part. Pointers to rows r and r + 1 of three by stride, so that 12 rows need 5 registers for addresses.
template <typename T, int kRows>
struct RowPointers {
  __attribute__((always_inline)) RowPointers(const T* first, int64_t row_stride) : stride(row_stride) {
#pragma GCC unroll 4
    for (int i = 0; i < (kRows + 2) / 3; ++i) third[i] = first + 3 * i * row_stride;
  }
  __attribute__((always_inline)) const T* Row(int r) const {
    return third[r / 3] + r % 3 * stride;
  }
  const T* third[(kRows + 2) / 3];
  int64_t stride;
};

// Scores of kRows rows for one panel of keys.
template <typename Lanes, int kRows>
DUNLIN_INLINE void ScorePanel(const float* q, int64_t q_stride, const float* panel, int depth, const float* scales,
                              float* s, int64_t s_stride) {
  constexpr int kVectors = Lanes::kWideVectors;
  typename Lanes::Floats sum[kRows][kVectors];
  const RowPointers<float, kRows> rows(q, q_stride);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Zero();
  }
  for (int64_t d = 0; d < depth; ++d, panel += 16 * kVectors) {
    typename Lanes::Floats keys[kVectors];
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) keys[c] = Lanes::Load(panel + 16 * c);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const auto query = Lanes::Set(rows.Row(r)[d]);
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::MultiplyAdd(sum[r][c], query, keys[c]);
    }
  }
#pragma GCC unroll 2
  for (int c = 0; c < kVectors; ++c) {
    const auto scale = scales == nullptr ? Lanes::Set(1.0F) : Lanes::Load(scales + 16 * c);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      if (scales != nullptr) sum[r][c] = Lanes::Multiply(sum[r][c], scale);
      Lanes::Store(s + r * s_stride + 16 * c, sum[r][c]);
    }
  }
}

// The keys from `key` on that row kFirst - 1 of the group no longer sees, but row kFirst does.
template <typename Lanes, int kRows, int kVectors, int kFirst>
DUNLIN_INLINE void AddTails(const RowPointers<float, kRows>& p, const int32_t* valid, const float* panel, int64_t key,
                            typename Lanes::Floats (&sum)[kRows][kVectors]) {
  if constexpr (kFirst < kRows) {
    for (; key < valid[kFirst]; ++key) {
      typename Lanes::Floats values[kVectors];
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) values[c] = Lanes::Load(panel + key * 16 * Lanes::kWideVectors + 16 * c);
#pragma GCC unroll 12
      for (int r = kFirst; r < kRows; ++r) {
        const auto weight = Lanes::Set(p.Row(r)[key]);
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::MultiplyAdd(sum[r][c], weight, values[c]);
      }
    }
    AddTails<Lanes, kRows, kVectors, kFirst + 1>(p, valid, panel, key, sum);
  }
}

// O of kRows rows and kVectors vectors of one panel of values. alpha: null for 1.
template <typename Lanes, int kRows, int kVectors>
DUNLIN_INLINE void ValuePanel(const float* p, int64_t p_stride, const int32_t* valid, const float* alpha,
                              const float* panel, float* o, int64_t o_stride) {
  typename Lanes::Floats sum[kRows][kVectors];
  const RowPointers<float, kRows> rows(p, p_stride);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const auto rescale = Lanes::Set(alpha == nullptr ? 1.0F : alpha[r]);
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Multiply(Lanes::Load(o + r * o_stride + 16 * c), rescale);
  }
  AddTails<Lanes, kRows, kVectors, 0>(rows, valid, panel, 0, sum);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) Lanes::Store(o + r * o_stride + 16 * c, sum[r][c]);
  }
}

template <typename Lanes, int kRows>
void ScorePanels(const ScoreArgs& args, int row, int panel, int depth, const float* scales) {
  constexpr int kColumns = 16 * Lanes::kWideVectors;
  const auto* q = reinterpret_cast<const float*>(args.q + row * args.q_stride);
  ScorePanel<Lanes, kRows>(q, args.q_stride / 4, args.wide + int64_t{panel} * depth * kColumns, depth,
                           scales == nullptr ? nullptr : scales + panel * kColumns,
                           args.s + row * args.s_stride + panel * kColumns, args.s_stride);
}

template <typename Lanes, int kRows>
void ValuePanels(const ValueArgs& args, int row, int panel) {
  constexpr int kColumns = 16 * Lanes::kWideVectors;
  const float* p = static_cast<const float*>(args.p) + row * args.p_stride;
  const float* alpha = args.alpha == nullptr ? nullptr : args.alpha + row;
  const float* values = args.wide + int64_t{panel} * kTileKeys * kColumns;
  float* o = args.o + row * args.o_stride + panel * kColumns;
  if constexpr (Lanes::kWideVectors == 2) {
    if (args.head_dim - panel * kColumns <= 16) {
      return ValuePanel<Lanes, kRows, 1>(p, args.p_stride, args.valid + row, alpha, values, o, args.o_stride);
    }
  }
  ValuePanel<Lanes, kRows, Lanes::kWideVectors>(p, args.p_stride, args.valid + row, alpha, values, o, args.o_stride);
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
DUNLIN_INLINE void WideScores(const ScoreArgs& args, int depth, const float* scales) {
  constexpr int kColumns = 16 * Lanes::kWideVectors;
  const int seen = args.valid == nullptr ? kTileKeys : args.valid[args.rows - 1];
  for (int panel = 0; panel * kColumns < seen; ++panel) {
    ForRowGroups<Lanes>(
        args.rows, [&]<int kRows>(int row) __attribute__((always_inline)) {
          if (args.valid != nullptr && args.valid[row + kRows - 1] <= panel * kColumns) return;
          ScorePanels<Lanes, kRows>(args, row, panel, depth, scales);
        });
  }
}

template <typename Lanes>
DUNLIN_INLINE void WideValues(const ValueArgs& args) {
  constexpr int kColumns = 16 * Lanes::kWideVectors;
  for (int panel = 0; panel * kColumns < args.head_dim; ++panel) {
    ForRowGroups<Lanes>(
        args.rows, [&]<int kRows>(int row)
                       __attribute__((always_inline)) { ValuePanels<Lanes, kRows>(args, row, panel); });
  }
}

}  // namespace dunlin::kernels::cpu::vectors
