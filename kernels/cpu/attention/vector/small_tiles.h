// SPDX-License-Identifier: Apache-2.0
// The register tiles of attention's templates for lanes types whose register file holds eight vectors of 16: AVX2, and
// NEON with twice the registers of half the size. Included by the vector files only.
#pragma once

#include <cstdint>

namespace dunlin::kernels::cpu::attention {

template <typename Lanes>
struct SmallTiles : Lanes {
  // Kernels that read pages: vectors of 16 keys or dimensions for 1 to 6 rows. Six of the eight vectors hold sums, 6
  // rows of 16 columns at most; one vector and one broadcast take one and a half.
  static constexpr int kVectorsOfRows[6] = {2, 2, 1, 1, 1, 1};
  static constexpr bool kTakesEightRows = false;
  // Vectors of values for `rows` rows. One row uses a value once; two and three rows load one again, which pays where
  // values are multiplied as they are stored (FP32).
  static consteval int VectorsOfValues(int rows, bool as_stored) {
    if (rows == 1) return 4;
    return as_stored && rows <= 3 ? 5 - rows : kVectorsOfRows[rows - 1];
  }
  static constexpr bool kPrefetchIntoL2 = false;
  // Kernels over widened panels.
  static constexpr int kWideRows = 6;
  static constexpr int kWideVectors = 1;
  static constexpr bool kBroadcastsInside = false;
  static constexpr int64_t kBlockBytes = 0;  // many such processors have 256 KB of L2
};

}  // namespace dunlin::kernels::cpu::attention
