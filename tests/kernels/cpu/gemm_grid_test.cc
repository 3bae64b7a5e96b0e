// SPDX-License-Identifier: Apache-2.0
// How products are cut into tasks: every panel once, within a block's memory, as many for each thread.
#include "kernels/cpu/gemm/gemm_grid.h"

#include <gtest/gtest.h>

#include "kernels/cpu/context/kernel_table.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

PackedWeight Shape(Precision precision, int64_t out_features, int64_t in_features) {
  return {.data = nullptr, .precision = precision, .out_features = out_features, .in_features = in_features};
}

TEST(GemmGrid, TakesEveryPanelOnceInGroupsThatFitABlock) {
  for (const int64_t rows : {1, 4, 5, 48, 49, 255, 256, 257, 512, 2048}) {
    for (const int64_t out_features : {1, 48, 49, 768, 2048, 2304, 16384}) {
      for (const int64_t in_features : {1, 512, 8192}) {
        for (const int64_t threads : {1, 2, 3, 16}) {
          for (const int64_t unit : {1, 2, 4, 8}) {
            const PackedWeight weight = Shape(Precision::kBf16, out_features, in_features);
            const GemmGrid grid = MakeGemmGrid(rows, weight, 256, threads, unit);
            SCOPED_TRACE(testing::Message() << rows << " x " << out_features << " x " << in_features << ", threads "
                                            << threads << ", unit " << unit);
            const int64_t panels = NumPanels(out_features);
            EXPECT_GE(grid.row_blocks * grid.rows_per_block, rows);
            EXPECT_LT((grid.row_blocks - 1) * grid.rows_per_block, rows);
            ASSERT_GE(grid.panel_groups, 1);
            EXPECT_EQ(grid.FirstPanel(0), 0);
            EXPECT_GE(grid.FirstPanel(grid.panel_groups), panels);
            EXPECT_LT(grid.FirstPanel(grid.panel_groups - 1), panels);
            int64_t smallest = grid.FirstPanel(1);
            for (int64_t group = 0; group < grid.panel_groups; ++group) {
              const int64_t size = grid.FirstPanel(group + 1) - grid.FirstPanel(group);
              EXPECT_EQ(size % unit, 0);
              EXPECT_LE(grid.rows_per_block * size, kGemmRowsMax * kGemmPanelsMax);
              EXPECT_LE(size, smallest) << "the larger come first";
              smallest = std::min(smallest, size);
            }
            EXPECT_LE(grid.FirstPanel(1) - smallest, unit);
            const bool cut_to_units = grid.panel_groups == (panels + unit - 1) / unit;
            EXPECT_TRUE(grid.num_tasks() <= threads || cut_to_units || grid.num_tasks() % threads == 0);
          }
        }
      }
    }
  }
}

// 43 panels: groups of five would be nine, of which one of two threads would do five.
TEST(GemmGrid, GivesEachThreadAsMuch) {
  const GemmGrid grid = MakeGemmGrid(256, Shape(Precision::kBf16, 2048, 8192), 256, 2, 1);
  EXPECT_EQ(grid.row_blocks, 1);
  EXPECT_EQ(grid.panel_groups, 10);
  EXPECT_EQ(grid.panels_per_group, 4);
  EXPECT_EQ(grid.larger_groups, 3);
}

// Few rows wait for memory: tasks of 640 KB while each thread has two.
TEST(GemmGrid, GivesFewRowsLargeTasks) {
  EXPECT_EQ(MakeGemmGrid(1, Shape(Precision::kFp8, 3072, 768), 256, 2, 1).panel_groups, 4);
  EXPECT_EQ(MakeGemmGrid(49, Shape(Precision::kFp8, 3072, 768), 256, 2, 1).panel_groups, 8);
}

}  // namespace
}  // namespace dunlin::kernels::cpu
