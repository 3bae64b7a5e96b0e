// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/gemm_grid.h"

#include <numeric>

#include "kernels/cpu/context/kernel_table.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

// Before the number of groups is rounded up to a multiple of the threads:
constexpr int64_t kTaskMacs = 1 << 17;  // multiply-adds of a task at least: about 2 us of one core
constexpr int64_t kTasksPerThread = 4;  // at least, where there are enough panels: one core may be slower than another

// Few rows are bound by memory. A task starts with a stall of some 0.6 us, so it reads at least 30 us' worth of weights
// as long as every thread has two tasks.
constexpr int64_t kFewRows = 48;
constexpr int64_t kFewRowsBytes = 640 << 10;
constexpr int64_t kFewRowsTasks = 2;

// Panels of one task share the rows' part of the cache, as long as every thread still gets several tasks.
int64_t SharedPanels(int64_t rows, const PackedWeight& weight, int64_t row_blocks, int64_t num_threads) {
  const int64_t panels = NumPanels(weight.out_features);
  const int64_t shared = std::min(kGemmPanelsMax, panels * row_blocks / (kTasksPerThread * num_threads));
  if (rows > kFewRows) return shared;
  const int64_t tasks = kFewRowsTasks * num_threads;
  const auto panel_bytes = static_cast<int64_t>(PanelBytes(weight.format, weight.in_features));
  return std::max(shared, std::min(kFewRowsBytes / panel_bytes, (panels + tasks - 1) / tasks));
}

}  // namespace

GemmGrid MakeGemmGrid(int64_t rows, const PackedWeight& weight, int64_t gemm_rows, int64_t num_threads, int64_t unit) {
  GemmGrid grid{};
  grid.row_blocks = (rows + gemm_rows - 1) / gemm_rows;
  grid.rows_per_block = RoundUp((rows + grid.row_blocks - 1) / grid.row_blocks, 8);
  const int64_t panels = NumPanels(weight.out_features);
  const int64_t macs_per_panel = std::min(rows, grid.rows_per_block) * weight.in_features * kPanelColumns;
  const int64_t shared = SharedPanels(rows, weight, grid.row_blocks, num_threads);
  const int64_t most = kGemmRowsMax * kGemmPanelsMax / grid.rows_per_block;
  const int64_t wanted = std::max({rows <= 4 ? int64_t{2} : int64_t{1}, kTaskMacs / macs_per_panel, shared});
  const int64_t units_per_group = std::min((wanted + unit - 1) / unit, most / unit);
  const int64_t units = (panels + unit - 1) / unit;
  grid.panel_groups = (units + units_per_group - 1) / units_per_group;
  if (grid.num_tasks() > num_threads) {
    const int64_t share = num_threads / std::gcd(num_threads, grid.row_blocks);
    grid.panel_groups = std::min(RoundUp(grid.panel_groups, share), units);
  }
  grid.unit = unit;
  grid.panels_per_group = units / grid.panel_groups * unit;
  grid.larger_groups = units % grid.panel_groups;
  return grid;
}

}  // namespace dunlin::kernels::cpu
