// SPDX-License-Identifier: Apache-2.0
// The AVX2 lanes with the register tiles of attention's templates (attention/vector). AVX2 translation units only.
#pragma once

#include "kernels/cpu/attention/vector/small_tiles.h"
#include "kernels/cpu/attention/vector/wide_kernels.h"
#include "kernels/cpu/simd/lanes_avx2.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

struct TileLanes : attention::SmallTiles<Lanes> {
  static constexpr auto kWideScores = &WideScores;  // wide.cc
  static constexpr auto kWideValues = &WideValues;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx2
