// SPDX-License-Identifier: Apache-2.0
// Adapters of one projection with random matrices, laid out as kernels/api/low_rank.h has them, and what they add to a
// row in FP64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "kernels/api/float_formats.h"
#include "kernels/api/low_rank.h"

namespace dunlin::kernels::testing {

inline constexpr float kLowRankScale = 0.75F;

inline std::vector<float> LowRankValues(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// A matrix [rank, features] as LowRankPair has it, and its values.
struct LowRankMatrix {
  std::vector<float> values;  // [rank, features], exact in the dtype
  std::vector<std::byte> stored;
};

// place(r, i): the element where the matrix has [r, i].
template <typename Place>
LowRankMatrix MakeLowRankMatrix(int32_t rank, int64_t features, DType dtype, uint32_t seed, int64_t elements,
                                const Place& place) {
  LowRankMatrix matrix{LowRankValues(rank * features, seed), {}};
  matrix.stored.resize(static_cast<size_t>(elements) * SizeOf(dtype));
  for (int64_t r = 0; r < rank; ++r) {
    for (int64_t i = 0; i < features; ++i) {
      float& value = matrix.values[static_cast<size_t>(r * features + i)];
      std::byte* at = matrix.stored.data() + static_cast<size_t>(place(r, i)) * SizeOf(dtype);
      if (dtype == DType::kF32) {
        std::memcpy(at, &value, 4);
        continue;
      }
      const uint16_t bits = dtype == DType::kF16 ? FloatToFp16(value) : FloatToBf16(value);
      value = dtype == DType::kF16 ? Fp16ToFloat(bits) : Bf16ToFloat(bits);
      std::memcpy(at, &bits, 2);
    }
  }
  return matrix;
}

inline LowRankMatrix MakeLowRankDown(int32_t rank, int64_t features, DType dtype, uint32_t seed) {
  const int64_t stride = LowRankStride(features);
  return MakeLowRankMatrix(rank, features, dtype, seed, rank * stride,
                           [&](int64_t r, int64_t i) { return r * stride + i; });
}

inline LowRankMatrix MakeLowRankUp(int32_t rank, int64_t features, DType dtype, uint32_t seed) {
  return MakeLowRankMatrix(
      rank, features, dtype, seed, rank * LowRankPanels(features) * kLowRankPanel,
      [&](int64_t r, int64_t i) { return (i / kLowRankPanel * rank + r) * kLowRankPanel + i % kLowRankPanel; });
}

// An adapter of one projection. pairs point into its matrices.
struct LowRankAdapter {
  std::deque<LowRankMatrix> down;
  std::deque<LowRankMatrix> up;
  std::vector<LowRankPair> pairs;

  void Add(int32_t rank, int64_t in_features, int32_t first_column, int32_t out_features, DType dtype, uint32_t seed) {
    down.push_back(MakeLowRankDown(rank, in_features, dtype, seed));
    up.push_back(MakeLowRankUp(rank, out_features, dtype, seed + 1));
    pairs.push_back({.down = down.back().stored.data(),
                     .up = up.back().stored.data(),
                     .dtype = dtype,
                     .rank = rank,
                     .first_column = first_column,
                     .out_features = out_features,
                     .scale = kLowRankScale});
  }

  // What it adds to a column of a row whose input is in[0, in_features).
  double Exact(const float* in, int64_t in_features, int64_t column) const {
    double value = 0.0;
    for (size_t p = 0; p < pairs.size(); ++p) {
      const LowRankPair& pair = pairs[p];
      const int64_t own = column - pair.first_column;
      if (own < 0 || own >= pair.out_features) continue;
      for (int64_t r = 0; r < pair.rank; ++r) {
        double hidden = 0.0;
        for (int64_t k = 0; k < in_features; ++k) {
          hidden += double{in[k]} * double{down[p].values[static_cast<size_t>(r * in_features + k)]};
        }
        value += double{pair.scale} * hidden * double{up[p].values[static_cast<size_t>(r * pair.out_features + own)]};
      }
    }
    return value;
  }
};

// The uses of a call: rows[i] are those of adapters[i]; it borrows both.
struct LowRankUses {
  std::vector<LowRankUse> list;
  size_t scratch_floats = 0;

  template <typename Adapters>
  LowRankUses(const Adapters& adapters, const std::vector<std::vector<int32_t>>& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].empty()) continue;
      list.push_back({adapters[i].pairs.data(), static_cast<int32_t>(adapters[i].pairs.size()), rows[i].data(),
                      static_cast<int32_t>(rows[i].size())});
      for (const LowRankPair& pair : adapters[i].pairs) {
        scratch_floats += static_cast<size_t>(pair.rank) * rows[i].size();
      }
    }
  }
};

}  // namespace dunlin::kernels::testing
