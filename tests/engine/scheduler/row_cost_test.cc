// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/row_cost.h"

#include <gtest/gtest.h>

#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

void MeasureRows(RowCost* cost, int32_t rows, TimeNs time, int count = 1) {
  for (int i = 0; i < count; ++i) cost->Learn(rows, time);
}

TEST(RowCost, IsTheMeasuredOneAndAStraightLineBetween) {
  RowCost cost;
  EXPECT_EQ(cost.Predict(1), 0.0);
  MeasureRows(&cost, 1, 1000);
  EXPECT_DOUBLE_EQ(cost.Predict(1), 1000.0);
  EXPECT_DOUBLE_EQ(cost.Predict(3), 3000.0);  // at most
  MeasureRows(&cost, 2, 1800);
  EXPECT_DOUBLE_EQ(cost.Predict(4), 3400.0);
  MeasureRows(&cost, 6, 2200);
  EXPECT_DOUBLE_EQ(cost.Predict(4), 2000.0);
  EXPECT_DOUBLE_EQ(cost.Predict(10), 2600.0);
  EXPECT_EQ(cost.most_rows(), 6);
}

TEST(RowCost, NeverFallsWithMoreRows) {
  RowCost cost;
  MeasureRows(&cost, 1, 1000);
  MeasureRows(&cost, 4, 900);
  EXPECT_DOUBLE_EQ(cost.Predict(3), 1000.0);
  EXPECT_DOUBLE_EQ(cost.Predict(8), 900.0);
}

TEST(RowCost, HasAnEntryForAnyNumberOfRows) {
  RowCost cost;
  for (int32_t rows = 1; rows < 40000; rows += 1 + rows / 16) {
    MeasureRows(&cost, rows, 1000 + 10 * rows, 4);
    EXPECT_NEAR(cost.Predict(rows) / (1000 + 10 * rows), 1.0, 0.2) << rows;
    EXPECT_GE(cost.NumMeasured(rows), 4) << rows;
  }
}

TEST(RowCost, ASlowFirstStepAndAnInterruptedOneChangeLittle) {
  RowCost cost;
  MeasureRows(&cost, 1, 8000);
  MeasureRows(&cost, 1, 1000, 11);
  EXPECT_DOUBLE_EQ(cost.Predict(1), 1000.0);
  MeasureRows(&cost, 1, 50000);
  EXPECT_LT(cost.Predict(1), 1060.0);
}

// A request elsewhere on the machine makes every step slower, those that are not measured meanwhile, too.
TEST(RowCost, ALoadThatSlowsMeasuredStepsSlowsTheOthers) {
  RowCost cost;
  MeasureRows(&cost, 1, 1000, 10);
  MeasureRows(&cost, 5, 1500, 10);
  MeasureRows(&cost, 1, 1000);
  MeasureRows(&cost, 1, 3000, 100);
  EXPECT_NEAR(cost.Predict(1), 3000.0, 10.0);
  EXPECT_NEAR(cost.Predict(5), 4500.0, 15.0);
}

// One number of rows that becomes slower beside another that is measured as often does not move it.
TEST(RowCost, RowsThatBecomeSlowerAloneChangeTheirRatio) {
  RowCost cost;
  MeasureRows(&cost, 1, 1000, 10);
  MeasureRows(&cost, 5, 1500, 10);
  for (int i = 0; i < 60; ++i) {
    MeasureRows(&cost, 1, 1000);
    MeasureRows(&cost, 5, 4000);
  }
  EXPECT_NEAR(cost.Predict(1), 1000.0, 20.0);
  EXPECT_NEAR(cost.Predict(5), 4000.0, 100.0);
}

TEST(RowCost, IsLearnedAnewWhereItWasNotMeasuredForLong) {
  RowCost cost;
  MeasureRows(&cost, 5, 4000, 3);
  MeasureRows(&cost, 1, 1000, RowCost::kStepsToAge + 1);
  EXPECT_EQ(cost.NumMeasured(5), 0);
  EXPECT_DOUBLE_EQ(cost.Predict(5), 5000.0);
  MeasureRows(&cost, 5, 1500);
  EXPECT_DOUBLE_EQ(cost.Predict(5), 1500.0);
  EXPECT_EQ(cost.NumMeasured(5), 1);
}

}  // namespace
}  // namespace dunlin::engine
