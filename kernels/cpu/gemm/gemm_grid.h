// SPDX-License-Identifier: Apache-2.0
// How a product's rows and panels are grouped into tasks. Any grouping gives the same bits: a task never cuts K.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/gemm.h"

namespace dunlin::kernels::cpu {

struct GemmGrid {
  int64_t row_blocks;
  int64_t rows_per_block;  // a multiple of 8; the last block may have fewer
  int64_t panel_groups;
  int64_t panels_per_group;  // of the smaller groups
  int64_t larger_groups;     // the first so many have `unit` panels more
  int64_t unit;

  int64_t num_tasks() const { return row_blocks * panel_groups; }
  // The end of the last group may lie past the last panel, by less than a unit.
  int64_t FirstPanel(int64_t group) const { return group * panels_per_group + std::min(group, larger_groups) * unit; }
};

// Groups large enough to share the cache, several for every thread: the same number for each where there are enough
// panels, with sizes that differ by at most one unit (of nine equal groups, one of two threads would compute five).
// rows >= 1; gemm_rows: rows of a block at most, <= kGemmRowsMax; num_threads >= 1; unit: the number of panels of a
// group is a multiple of it, 1..kGemmPanelsMax. A group's rows and panels fit kBlockOutBytes.
GemmGrid MakeGemmGrid(int64_t rows, const PackedWeight& weight, int64_t gemm_rows, int64_t num_threads, int64_t unit);

}  // namespace dunlin::kernels::cpu
