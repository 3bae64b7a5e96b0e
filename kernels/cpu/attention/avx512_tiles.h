// AVX-512 kernels for the scores and values of a tile, over a dtype's loader. Included by the avx512_*.cc only; every
// function is a template over a type of an anonymous namespace or always inlined, so none of it leaves those files.
//
// Up to 6 rows x 4 vectors of accumulators stay in registers: 24 of 32. Rows end in order (valid does not decrease), so
// a group of rows runs unmasked up to its first row's end and then, for the few keys left, row by row: no row's chain
// ever holds a term of a key it does not see. Instantiations per loader: 6 score kernels; 6 x 4 value kernels.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::avx512 {

inline constexpr int kRowsAtOnce = 6;
inline constexpr int kVectorsAtOnce = 4;
inline constexpr __mmask16 kAllLanes = 0xFFFF;

// Scores of kRows rows for the tile's 64 keys: 4 vectors of 16 keys, one chain over the loader's steps each.
template <typename Keys, int kRows>
void ScoreRows(const ScoreArgs& args, int row) {
  const std::byte* const* blocks = args.tile->keys;
  const int64_t steps = Keys::Steps(args.head_dim);
  const std::byte* q[kRows];
  __m512 sum[kRows][4];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    q[r] = args.q + (row + r) * args.q_stride;
#pragma GCC unroll 8
    for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_setzero_ps();
  }
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 2
    for (int part = 0; part < Keys::kParts; ++part) {
      typename Keys::Vector keys[4];
#pragma GCC unroll 8
      for (int c = 0; c < 4; ++c) keys[c] = Keys::Load(blocks, c, step, part);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const typename Keys::Vector query = Keys::Broadcast(q[r] + (step * Keys::kParts + part) * 4);
#pragma GCC unroll 8
        for (int c = 0; c < 4; ++c) sum[r][c] = Keys::MultiplyAdd(sum[r][c], query, keys[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* s = args.s + (row + r) * args.s_stride;
#pragma GCC unroll 8
    for (int c = 0; c < 4; ++c) _mm512_store_ps(s + 16 * c, Keys::ScaleSum(blocks, c, args.head_dim, sum[r][c]));
  }
}

template <typename Keys>
void Scores(const ScoreArgs& args) {
  int row = 0;
  for (; row + kRowsAtOnce <= args.rows; row += kRowsAtOnce) ScoreRows<Keys, kRowsAtOnce>(args, row);
  switch (args.rows - row) {
    case 1:
      return ScoreRows<Keys, 1>(args, row);
    case 2:
      return ScoreRows<Keys, 2>(args, row);
    case 3:
      return ScoreRows<Keys, 3>(args, row);
    case 4:
      return ScoreRows<Keys, 4>(args, row);
    case 5:
      return ScoreRows<Keys, 5>(args, row);
    default:
      return;
  }
}

// O of kRows rows and kVectors vectors of dimensions from dim on, keys from `from`, a multiple of the step, on; last is
// the mask of the last vector's dimensions. A loader's step is kKeys keys in kParts products: 1 in 1; a BF16 pair
// widened, 2 in 2; its dot product, 2 in 1.
template <typename Loader, int kRows, int kVectors>
void ValueRows(const ValueArgs& args, int row, int dim, __mmask16 last, int64_t from) {
  constexpr int kKeys = Loader::kKeys;
  constexpr int kTokens = Loader::kTokens;
  const int32_t* valid = args.valid + row;
  const int64_t step_bytes = Loader::StepBytes(args.head_dim);
  const int64_t start = dim * Loader::kDimBytes;
  const typename Loader::P* p[kRows];
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    p[r] = static_cast<const typename Loader::P*>(args.p) + (row + r) * args.p_stride;
    const float* o = args.o + (row + r) * args.o_stride + dim;
    const __m512 alpha = _mm512_set1_ps(args.alpha == nullptr ? 1.0F : args.alpha[row + r]);
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm512_mul_ps(_mm512_load_ps(o + 16 * c), alpha);
  }
  const int64_t whole = valid[0] / kKeys * kKeys;  // keys that every row of the group sees
  int64_t key = from;
  for (int64_t page = from / kTokens; key < whole; ++page) {
    const std::byte* block = args.tile->values[page] + start + key % kTokens / kKeys * step_bytes;
    const int64_t end = whole < (page + 1) * kTokens ? whole : (page + 1) * kTokens;
    for (; key < end; key += kKeys, block += step_bytes) {
#pragma GCC unroll 2
      for (int part = 0; part < Loader::kParts; ++part) {
        typename Loader::Vector values[kVectors];
#pragma GCC unroll 8
        for (int c = 0; c < kVectors; ++c) {
          values[c] = Loader::ScaleValue(args.tile->values[page], key % kTokens, args.head_dim,
                                         Loader::Load(block, part, c, c + 1 == kVectors ? last : kAllLanes));
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const typename Loader::Vector weight = Loader::Broadcast(p[r] + key + part);
#pragma GCC unroll 8
          for (int c = 0; c < kVectors; ++c) sum[r][c] = Loader::MultiplyAdd(sum[r][c], weight, values[c]);
        }
      }
    }
  }
  for (; key < valid[kRows - 1]; key += kKeys) {
    const std::byte* block = args.tile->values[key / kTokens] + start + key % kTokens / kKeys * step_bytes;
#pragma GCC unroll 2
    for (int part = 0; part < Loader::kParts; ++part) {
      typename Loader::Vector values[kVectors];
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) {
        values[c] = Loader::ScaleValue(args.tile->values[key / kTokens], key % kTokens, args.head_dim,
                                       Loader::Load(block, part, c, c + 1 == kVectors ? last : kAllLanes));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const int64_t left = valid[r] - key - part;
        if (left <= 0) continue;
        const typename Loader::Vector weight = Loader::Broadcast(p[r] + key + part);
        const bool half = left < kKeys / Loader::kParts;  // the row sees the first key of a product of two
#pragma GCC unroll 8
        for (int c = 0; c < kVectors; ++c) {
          sum[r][c] = Loader::MultiplyAdd(sum[r][c], weight, half ? Loader::FirstKey(values[c]) : values[c]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* o = args.o + (row + r) * args.o_stride + dim;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) _mm512_store_ps(o + 16 * c, sum[r][c]);
  }
}

template <typename Loader, int kRows>
void ValueRows(const ValueArgs& args, int row, int64_t from) {
  for (int dim = 0; dim < args.head_dim; dim += 16 * kVectorsAtOnce) {
    const int left = args.head_dim - dim;
    const __mmask16 last = left % 16 == 0 || left > 64 ? kAllLanes : static_cast<__mmask16>((1U << (left % 16)) - 1U);
    if (left > 48) {
      ValueRows<Loader, kRows, 4>(args, row, dim, last, from);
    } else if (left > 32) {
      ValueRows<Loader, kRows, 3>(args, row, dim, last, from);
    } else if (left > 16) {
      ValueRows<Loader, kRows, 2>(args, row, dim, last, from);
    } else {
      ValueRows<Loader, kRows, 1>(args, row, dim, last, from);
    }
  }
}

// A row whose first key is not the tile's: O times alpha, and the key that has no partner in front of it.
template <typename Loader>
void StartRow(const ValueArgs& args, int row) {
  const int begin = args.begin[row];
  const bool lone = begin % Loader::kKeys != 0;
  const std::byte* block = args.tile->values[begin / Loader::kTokens] +
                           begin % Loader::kTokens / Loader::kKeys * Loader::StepBytes(args.head_dim);
  const auto* p = static_cast<const typename Loader::P*>(args.p) + row * args.p_stride;
  const __m512 alpha = _mm512_set1_ps(args.alpha == nullptr ? 1.0F : args.alpha[row]);
  for (int dim = 0; dim < args.head_dim; dim += 16) {
    const int left = args.head_dim - dim;
    const __mmask16 mask = left >= 16 ? kAllLanes : static_cast<__mmask16>((1U << left) - 1U);
    float* o = args.o + row * args.o_stride + dim;
    __m512 sum = _mm512_mul_ps(_mm512_load_ps(o), alpha);
    if (lone) {
      // In one product of two keys the first one's P is 0; in two products the first is left out.
      const int part = Loader::kParts - 1;
      const typename Loader::Vector weight = Loader::Broadcast(p + begin / Loader::kKeys * Loader::kKeys + part);
      const typename Loader::Vector value =
          Loader::LastKey(Loader::Load(block + dim * Loader::kDimBytes, part, 0, mask));
      sum = Loader::MultiplyAdd(sum, weight, value);
    }
    _mm512_store_ps(o, sum);
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
  int row = 0;
  for (; row + kRowsAtOnce <= args.rows; row += kRowsAtOnce) AddValuesOf<Loader, kRowsAtOnce>(args, row);
  switch (args.rows - row) {
    case 1:
      return AddValuesOf<Loader, 1>(args, row);
    case 2:
      return AddValuesOf<Loader, 2>(args, row);
    case 3:
      return AddValuesOf<Loader, 3>(args, row);
    case 4:
      return AddValuesOf<Loader, 4>(args, row);
    case 5:
      return AddValuesOf<Loader, 5>(args, row);
    default:
      return;
  }
}

}  // namespace dunlin::kernels::cpu::avx512
