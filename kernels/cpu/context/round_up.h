// SPDX-License-Identifier: Apache-2.0
// Sizes padded to a unit. Pure.
#pragma once

#include <cstdint>

namespace dunlin::kernels::cpu {

// The smallest multiple of `unit` that is not below `value`. REQUIRES: value >= 0, unit > 0.
constexpr int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace dunlin::kernels::cpu
