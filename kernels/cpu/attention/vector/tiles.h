// SPDX-License-Identifier: Apache-2.0
// Scores and values of a tile read from its pages, over a dtype's loader, by vectors of 16. Included by the vector
// files only; every function is a template over a type of an anonymous namespace or always inlined, so no code is
// shared between them.
//
// Sums stay in registers: rows times kVectorsOfRows of them, for values rows times VectorsOfValues. Rows end in order
// (valid does not decrease), so a group of rows runs unmasked up to its first row's end and then, for the few keys
// left, row by row: no row's chain ever holds a term of a key it does not see. Many rows take the tile widened once
// instead (vector/wide_tiles.h): the same chains. Instantiations per loader: 7 score kernels, 38 value kernels; of AVX2
// 6 and 10, of FP32 12.
#pragma once

#include "kernels/cpu/attention/vector/wide_tiles.h"

namespace dunlin::kernels::cpu::attention {

inline constexpr int kRowsAtOnce = 6;

// Scores of kRows rows for kVectors * 16 keys from vector `first` on, one chain over the loader's steps each.
template <typename Keys, int kRows, int kVectors>
void ScoreVectors(const ScoreArgs& args, int row, int first) {
  using Lanes = typename Keys::Lanes;
  const std::byte* const* blocks = args.keys;
  const int64_t steps = Keys::Steps(args.head_dim);
  constexpr int kPages = Keys::kPages * kVectors / 4 > 0 ? Keys::kPages * kVectors / 4 : 1;
  const std::byte* const* next = args.next + Keys::kPages * first / 4;
  const std::byte* q[kRows];
  typename Lanes::Floats sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    q[r] = args.q + (row + r) * args.q_stride;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Zero();
  }
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 8
    for (int page = 0; page < kPages; ++page)
      PrefetchLine<Lanes::kPrefetchIntoL2>(next[page] + step * Keys::kStepBytes);
#pragma GCC unroll 2
    for (int part = 0; part < Keys::kParts; ++part) {
      typename Keys::Vector keys[kVectors];
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) keys[c] = Keys::Load(blocks, first + c, step, part);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto query = Keys::Broadcast(q[r] + (step * Keys::kParts + part) * 4);
#pragma GCC unroll 8
        for (int c = 0; c < kVectors; ++c) sum[r][c] = Keys::Accumulate(sum[r][c], query, keys[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) {
    if constexpr (Keys::kScalesKeys) {
      const auto scale = Keys::Scale(blocks, first + c, args.head_dim);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][c] = Lanes::Mul(sum[r][c], scale);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Lanes::Store(args.s + (row + r) * args.s_stride + 16 * (first + c), sum[r][c]);
    }
  }
}

template <typename Keys, int kRows>
void ScoreRows(const ScoreArgs& args, int row) {
  constexpr int kVectors = Keys::Lanes::kVectorsOfRows[kRows - 1];
  const int seen = args.valid == nullptr ? kTileKeys : args.valid[row + kRows - 1];
  for (int first = 0; 16 * first < seen; first += kVectors) ScoreVectors<Keys, kRows, kVectors>(args, row, first);
}

// Calls body.operator()<kRows>(row) for eight rows that are all there is, or for groups of six and the rest.
template <typename Lanes, typename Body>
DUNLIN_INLINE void ForPageRows(int rows, const Body& body) {
  if constexpr (Lanes::kTakesEightRows) {
    if (rows == 8) return body.template operator()<8>(0);
  }
  int row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) body.template operator()<kRowsAtOnce>(row);
  ForRest<kRowsAtOnce - 1>(rows - row, row, body);
}

template <typename Keys>
void Scores(const ScoreArgs& args) {
  if constexpr (Keys::kWidens) {
    if (args.wide != nullptr && args.rows >= Keys::Lanes::kWideRows) return ScoreWidened<Keys>(args);
  }
  ForPageRows<typename Keys::Lanes>(
      args.rows, [&]<int kRows>(int row) __attribute__((always_inline)) { ScoreRows<Keys, kRows>(args, row); });
}

// Adds to `sum` the keys from `key` on, of which some rows see fewer than others.
template <typename Loader, int kRows, int kVectors>
DUNLIN_INLINE void AddRaggedKeys(const ValueArgs& args, const int32_t* valid,
                                 const typename Loader::P* const (&p)[kRows], int64_t start,
                                 typename Loader::Lanes::Mask last, int64_t key,
                                 typename Loader::Lanes::Floats (&sum)[kRows][kVectors]) {
  constexpr int kKeys = Loader::kKeys;
  constexpr int kTokens = Loader::kTokens;
  const auto all = Loader::Lanes::FirstLanes(16);
  const int64_t step_bytes = Loader::StepBytes(args.head_dim);
  for (; key < valid[kRows - 1]; key += kKeys) {
    const std::byte* block = args.values[key / kTokens] + start + key % kTokens / kKeys * step_bytes;
#pragma GCC unroll 2
    for (int part = 0; part < Loader::kParts; ++part) {
      typename Loader::Vector values[kVectors];
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) {
        values[c] = Loader::ScaleValue(args.values[key / kTokens], key % kTokens, args.head_dim,
                                       Loader::Load(block, part, c, c + 1 == kVectors ? last : all));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const int64_t left = valid[r] - key - part;
        if (left <= 0) continue;
        const auto weight = Loader::Broadcast(p[r] + key + part);
        const bool half = left < kKeys / Loader::kParts;  // the row sees the first key of a product of two
#pragma GCC unroll 8
        for (int c = 0; c < kVectors; ++c) {
          sum[r][c] = Loader::Accumulate(sum[r][c], weight, half ? Loader::FirstKey(values[c]) : values[c]);
        }
      }
    }
  }
}

// O of kRows rows and kVectors vectors of dimensions from dim on, keys from `from`, a multiple of the step, on; last is
// the tail of the last vector's dimensions.
template <typename Loader, int kRows, int kVectors>
void ValueVectors(const ValueArgs& args, int row, int dim, typename Loader::Lanes::Mask last, int64_t from) {
  using Lanes = typename Loader::Lanes;
  constexpr int kKeys = Loader::kKeys;
  constexpr int kTokens = Loader::kTokens;
  const auto all = Lanes::FirstLanes(16);
  const int32_t* valid = args.valid + row;
  const int64_t step_bytes = Loader::StepBytes(args.head_dim);
  const int64_t start = dim * Loader::kDimBytes;
  const typename Loader::P* p[kRows];
  typename Lanes::Floats sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    p[r] = static_cast<const typename Loader::P*>(args.p) + (row + r) * args.p_stride;
    const float* o = args.o + (row + r) * args.o_stride + dim;
    const auto alpha = Lanes::Broadcast(args.alpha == nullptr ? 1.0F : args.alpha[row + r]);
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Lanes::Mul(Lanes::Load(o + 16 * c), alpha);
  }
  const int64_t whole = valid[0] / kKeys * kKeys;  // keys that every row of the group sees
  int64_t key = from;
  for (int64_t page = from / kTokens; key < whole; ++page) {
    const int64_t offset = start + key % kTokens / kKeys * step_bytes;
    const std::byte* block = args.values[page] + offset;
    const std::byte* next = args.next[page] + offset;
    const int64_t end = whole < (page + 1) * kTokens ? whole : (page + 1) * kTokens;
    for (; key < end; key += kKeys, block += step_bytes, next += step_bytes) {
      PrefetchLines<Lanes::kPrefetchIntoL2>(next, kVectors * 16 * Loader::kDimBytes);
#pragma GCC unroll 2
      for (int part = 0; part < Loader::kParts; ++part) {
        typename Loader::Vector values[kVectors];
#pragma GCC unroll 8
        for (int c = 0; c < kVectors; ++c) {
          values[c] = Loader::ScaleValue(args.values[page], key % kTokens, args.head_dim,
                                         Loader::Load(block, part, c, c + 1 == kVectors ? last : all));
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const auto weight = Loader::Broadcast(p[r] + key + part);
#pragma GCC unroll 8
          for (int c = 0; c < kVectors; ++c) sum[r][c] = Loader::Accumulate(sum[r][c], weight, values[c]);
        }
      }
    }
  }
  AddRaggedKeys<Loader, kRows, kVectors>(args, valid, p, start, last, key, sum);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* o = args.o + (row + r) * args.o_stride + dim;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) Lanes::Store(o + 16 * c, sum[r][c]);
  }
}

// Dimensions from `dim` on by kVectors vectors while there are as many, then by fewer.
template <typename Loader, int kRows, int kVectors>
DUNLIN_INLINE void ValueRowsBy(const ValueArgs& args, int row, int dim, int64_t from) {
  using Lanes = typename Loader::Lanes;
  for (; args.head_dim - dim > 16 * (kVectors - 1); dim += 16 * kVectors) {
    const int left = args.head_dim - dim - 16 * (kVectors - 1);
    ValueVectors<Loader, kRows, kVectors>(args, row, dim, Lanes::FirstLanes(left), from);
  }
  if constexpr (kVectors > 1) {
    if (dim < args.head_dim) ValueRowsBy<Loader, kRows, kVectors - 1>(args, row, dim, from);
  }
}

template <typename Loader, int kRows>
void ValueRows(const ValueArgs& args, int row, int64_t from) {
  constexpr bool kAsStored = Loader::kKeys == 1 && Loader::kDimBytes == sizeof(float);
  ValueRowsBy<Loader, kRows, Loader::Lanes::VectorsOfValues(kRows, kAsStored)>(args, row, 0, from);
}

// A row whose first key is not the tile's: O times alpha, and the key that has no partner in front of it.
template <typename Loader>
void StartRow(const ValueArgs& args, int row) {
  using Lanes = typename Loader::Lanes;
  const int begin = args.begin[row];
  const bool lone = begin % Loader::kKeys != 0;
  const std::byte* block =
      args.values[begin / Loader::kTokens] + begin % Loader::kTokens / Loader::kKeys * Loader::StepBytes(args.head_dim);
  const auto* p = static_cast<const typename Loader::P*>(args.p) + row * args.p_stride;
  const auto alpha = Lanes::Broadcast(args.alpha == nullptr ? 1.0F : args.alpha[row]);
  for (int dim = 0; dim < args.head_dim; dim += 16) {
    float* o = args.o + row * args.o_stride + dim;
    auto sum = Lanes::Mul(Lanes::Load(o), alpha);
    if (lone) {
      // In one product of two keys the first one's P is 0; in two products the first is left out.
      const int part = Loader::kParts - 1;
      const auto weight = Loader::Broadcast(p + begin / Loader::kKeys * Loader::kKeys + part);
      const typename Loader::Vector value = Loader::LastKey(
          Loader::Load(block + dim * Loader::kDimBytes, part, 0, Lanes::FirstLanes(args.head_dim - dim)));
      sum = Loader::Accumulate(sum, weight, value);
    }
    Lanes::Store(o, sum);
  }
}

// Rows that begin at different keys: each alone up to the key from which all of them see the tile, then together.
template <typename Loader, int kRows>
void ValueRowsFrom(const ValueArgs& args, int row) {
  const auto step_after = [](int32_t key) { return (key + Loader::kKeys - 1) / Loader::kKeys * Loader::kKeys; };
  const int32_t together = step_after(args.begin[row + kRows - 1]);
  for (int r = row; r < row + kRows; ++r) {
    StartRow<Loader>(args, r);
    const int32_t end = args.valid[r] < together ? args.valid[r] : together;
    if (step_after(args.begin[r]) >= end) continue;
    ValueArgs one = args;
    one.p = static_cast<const typename Loader::P*>(args.p) + r * args.p_stride;
    one.valid = &end;
    one.alpha = nullptr;
    one.o = args.o + r * args.o_stride;
    ValueRows<Loader, 1>(one, 0, step_after(args.begin[r]));
  }
  if (together >= args.valid[row + kRows - 1]) return;
  ValueArgs rest = args;
  rest.alpha = nullptr;
  ValueRows<Loader, kRows>(rest, row, together);
}

template <typename Loader, int kRows>
void AddValuesOf(const ValueArgs& args, int row) {
  if (args.begin == nullptr) return ValueRows<Loader, kRows>(args, row, 0);
  ValueRowsFrom<Loader, kRows>(args, row);
}

template <typename Loader>
void AddValues(const ValueArgs& args) {
  if constexpr (Loader::kWidens) {
    if (args.wide != nullptr && args.begin == nullptr && args.rows >= Loader::Lanes::kWideRows) {
      return AddWidenedValues<Loader>(args);
    }
  }
  ForPageRows<typename Loader::Lanes>(
      args.rows, [&]<int kRows>(int row) __attribute__((always_inline)) { AddValuesOf<Loader, kRows>(args, row); });
}

}  // namespace dunlin::kernels::cpu::attention
