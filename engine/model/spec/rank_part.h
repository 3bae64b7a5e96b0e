// SPDX-License-Identifier: Apache-2.0
// How a dimension of a model is divided among ranks. Pure.
#pragma once

#include <cstdint>

namespace dunlin::engine {

inline constexpr int32_t kMaxRanks = 64;  // of a model

// Consecutive elements of a dimension.
struct RankPart {
  int32_t first = 0;
  int32_t count = 0;
};

// The part of a rank: as equal as possible and, where parts are long, in units of a cache line of floats, so that no
// two ranks write to one. REQUIRES: 0 <= rank < num_ranks.
constexpr RankPart PartOf(int32_t total, int32_t rank, int32_t num_ranks) {
  constexpr int64_t kLine = 16;
  constexpr int64_t kLongLines = 4;  // units may make a part a quarter longer than another
  const int64_t unit = total / num_ranks >= kLongLines * kLine ? kLine : 1;
  const auto begin_of = [&](int64_t index) {
    return index == num_ranks ? int64_t{total} : total * index / num_ranks / unit * unit;
  };
  const int64_t first = begin_of(rank);
  return {static_cast<int32_t>(first), static_cast<int32_t>(begin_of(rank + 1) - first)};
}

}  // namespace dunlin::engine
