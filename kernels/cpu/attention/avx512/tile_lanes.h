// SPDX-License-Identifier: Apache-2.0
// The AVX-512 lanes with the register tiles of attention's templates (attention/vector). AVX-512 translation units
// only.
#pragma once

#include "kernels/cpu/attention/vector/wide_kernels.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct TileLanes : Lanes {
  // Kernels that read pages: vectors of 16 keys or dimensions for 1 to 8 rows. 24 of the 32 registers hold sums, 6 x 4,
  // or 8 x 2 for a group of eight heads, whose keys are then decoded once.
  static constexpr int kVectorsOfRows[8] = {4, 4, 4, 4, 4, 4, 0, 2};
  static constexpr bool kTakesEightRows = true;
  // Vectors of values for `rows` rows: also 24 sums, so that few rows read 128 dimensions of a page in one run. Three
  // rows load a value twice for it, which is hidden behind memory.
  static consteval int VectorsOfValues(int rows, bool /*as_stored*/) {
    return rows <= 3 ? 8 : kVectorsOfRows[rows - 1];
  }
  static constexpr bool kPrefetchIntoL2 = false;
  // Kernels over widened panels: 12 x 2 sums, which load a vector for twice as many products.
  static constexpr int kWideRows = 12;
  static constexpr int kWideVectors = 2;
  static constexpr bool kBroadcastsInside = true;
  static constexpr int64_t kBlockBytes = int64_t{704} << 10;  // server cores have 1 MB of L2 or more
  static constexpr auto kWideScores = &WideScores;            // wide.cc
  static constexpr auto kWideValues = &WideValues;
};

// The same, prefetching into L2 (vector/prefetch.h).
struct L2TileLanes : TileLanes {
  static constexpr bool kPrefetchIntoL2 = true;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx512
