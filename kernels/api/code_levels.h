// SPDX-License-Identifier: Apache-2.0
// The 8-bit integers that 4-bit codes of a table stand for (CodeLevels). Constants of published file formats. Plain
// data, any thread. Source: gguf 0.19, quants.py (grid_map, kvalues); OCP Microscaling Formats 1.0, 5.3.3 (E2M1).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"

namespace dunlin::kernels {

struct CodeLevelsRow {
  CodeLevels levels;
  int8_t values[16];  // of code i; unused codes are 0
};
inline constexpr CodeLevelsRow kCodeLevelsTable[kNumCodeLevels] = {
    {CodeLevels::kIntegers, {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1}},
    {CodeLevels::kIq2, {-43, -25, -8, 8, 25, 43}},
    {CodeLevels::kIq3, {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62}},
    {CodeLevels::kOdd, {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}},
    {CodeLevels::kIq4, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}},
    {CodeLevels::kE2M1, {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}},
};
static_assert([] {
  for (size_t i = 0; i < kNumCodeLevels; ++i) {
    if (static_cast<size_t>(kCodeLevelsTable[i].levels) != i) return false;
  }
  return true;
}());

constexpr const CodeLevelsRow& RowOf(CodeLevels levels) {
  return kCodeLevelsTable[static_cast<size_t>(levels)];
}

}  // namespace dunlin::kernels
