// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/hidden_rows.h"

#include <gtest/gtest.h>

namespace dunlin::engine {
namespace {

SequenceStep Share(RequestId id, int32_t first, int32_t count) {
  SequenceStep step;
  step.request_id = id;
  step.first_position = first;
  step.num_tokens = count;
  return step;
}

TEST(HiddenRows, FindsThePositionsOfASequencesLastStep) {
  HiddenRows rows(1, 16, 2);
  rows.BeginStep();
  const int32_t first = rows.RowOfStep(5);
  rows.Note(Share(3, 10, 4), first);
  EXPECT_EQ(rows.Find(3, 9), -1);
  EXPECT_EQ(rows.Find(3, 10), first);
  EXPECT_EQ(rows.Find(3, 13), first + 3);
  EXPECT_EQ(rows.Find(3, 14), -1);
  EXPECT_EQ(rows.Find(4, 10), -1) << "another sequence";
  EXPECT_EQ(rows.Find(11, 10), -1) << "another one, in the same place";
}

// A ring of one step more than are in flight.
TEST(HiddenRows, AreForgottenBeforeTheyAreOverwritten) {
  for (const int32_t num_steps : {1, 2}) {
    HiddenRows rows(num_steps, 16, 2);
    rows.BeginStep();
    const int32_t first = rows.RowOfStep(0);
    rows.Note(Share(3, 0, 2), first);
    for (int32_t step = 0; step < num_steps; ++step) {
      rows.BeginStep();
      EXPECT_NE(rows.RowOfStep(0), first);
      EXPECT_EQ(rows.Find(3, 1), first + 1);
    }
    rows.BeginStep();
    EXPECT_EQ(rows.RowOfStep(0), first);
    EXPECT_EQ(rows.Find(3, 1), -1);
  }
}

TEST(HiddenRows, PredictionsHaveRowsOfTheirOwn) {
  const HiddenRows rows(2, 16, 4);
  EXPECT_EQ(rows.RowOfPrediction(0), 3 * 16);
  EXPECT_EQ(rows.RowOfPrediction(3), HiddenRows::NumRows(2, 16, 4) - 1);
}

}  // namespace
}  // namespace dunlin::engine
