// SPDX-License-Identifier: Apache-2.0
// The NEON lanes with the register tiles of attention's templates (attention/vector). NEON translation units only.
#pragma once

#include "kernels/cpu/attention/vector/small_tiles.h"
#include "kernels/cpu/attention/vector/wide_kernels.h"
#include "kernels/cpu/simd/lanes_neon.h"

namespace dunlin::kernels::cpu::neon {
namespace {

struct TileLanes : attention::SmallTiles<Lanes> {
  static constexpr auto kWideScores = &WideScores;  // wide.cc
  static constexpr auto kWideValues = &WideValues;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon
