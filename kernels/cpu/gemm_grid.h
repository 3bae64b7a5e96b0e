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
  // The end of the last group may lie behind the last panel, by less than a unit.
  int64_t FirstPanel(int64_t group) const { return group * panels_per_group + std::min(group, larger_groups) * unit; }
};

// Groups as large as the cache is shared best by, of which every thread has several; the same number for each where
// there are panels enough, and sizes that differ by one unit at most: of nine equal ones, one of two threads would do
// five. rows >= 1; gemm_rows: of a block at most, <= kGemmRowsMax; num_threads >= 1; unit: panels of a group are a
// multiple of it, 1..kGemmPanelsMax. A group's rows and panels fit kBlockOutBytes.
GemmGrid MakeGemmGrid(int64_t rows, const PackedWeight& weight, int64_t gemm_rows, int64_t num_threads, int64_t unit);

}  // namespace dunlin::kernels::cpu
