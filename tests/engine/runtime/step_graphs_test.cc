// SPDX-License-Identifier: Apache-2.0
// Which passes are recorded and launched as graphs, when, and what happens where a device refuses.
#include "engine/runtime/step_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime/memory_plan.h"
#include "tests/engine/runtime/fake_device.h"

namespace dunlin::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StepGraphsTest : public testing::Test {
 protected:
  // The lines that one more pass adds.
  std::vector<std::string> Run(StepGraphs* graphs, const PassInputs& inputs, const ExecutionProfile& profile = {}) {
    const size_t before = log_.lines.size();
    graphs->BeginStep();
    status_ = graphs->Run(profile, inputs, [&] {
      const bool ran = device_->ops->synchronize(device_->context) == kernels::KernelStatus::kOk;
      return ran ? absl::OkStatus() : absl::InternalError("the pass");
    });
    return {log_.lines.begin() + static_cast<std::ptrdiff_t>(before), log_.lines.end()};
  }
  static MemoryPlan Plan(size_t bytes_each = 0) {
    MemoryPlan plan;
    plan.num_graphs = kMaxGraphs;
    plan.bytes[static_cast<size_t>(BufferId::kGraphs)] = kMaxGraphs * bytes_each;
    return plan;
  }
  static PassInputs Decode(int32_t rows, int32_t max_kv_tokens = 512) {
    PassInputs inputs;
    inputs.num_tokens = inputs.num_decode_tokens = inputs.kept.count = rows;
    inputs.spans = {.count = rows, .num_one_token = rows, .max_query_tokens = 1, .max_kv_tokens = max_kv_tokens};
    return inputs;
  }

  FakeDeviceLog log_;
  FakeSupport support_{.refusals = {}, .graphs = true};
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  absl::Status status_;
};

constexpr char kPass[] = "synchronize";  // the operation of a pass

TEST_F(StepGraphsTest, APassIsRecordedTheSecondTimeAndLaunchedFromThenOn) {
  StepGraphs graphs(device_.get(), Plan());
  EXPECT_TRUE(graphs.on());
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre("begin graph", kPass, "end graph", "launch graph 4"));
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre("launch graph 4"));
  EXPECT_TRUE(status_.ok());
}

TEST_F(StepGraphsTest, PassesThatDifferHaveGraphsOfTheirOwn) {
  StepGraphs graphs(device_.get(), Plan());
  ExecutionProfile fp8;
  fp8.precision = Precision::kFp8;
  PassInputs other_table = Decode(3);
  other_table.page_table_stride = 8;
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(4)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(3, 1024)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, other_table), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(3), fp8), ElementsAre(kPass));
}

TEST_F(StepGraphsTest, PromptsManyRowsStatesAndRowsOfPromptsRunAsTheyAre) {
  StepGraphs graphs(device_.get(), Plan());
  PassInputs prompt = Decode(3);
  prompt.num_decode_tokens = 2;
  PassInputs recurrent = Decode(3);
  const StatePart part{.count = 3};
  recurrent.state_parts = {&part, 1};
  PassInputs with_rows = Decode(3);
  const RowRun run{.num_rows = 1};
  with_rows.row_runs = {&run, 1};
  for (const PassInputs& inputs : {prompt, recurrent, with_rows, Decode(kMaxGraphRows + 1), Decode(0)}) {
    for (int round = 0; round < 3; ++round) EXPECT_THAT(Run(&graphs, inputs), ElementsAre(kPass));
  }
}

TEST_F(StepGraphsTest, ADeviceWithoutGraphsIsNotAsked) {
  support_.graphs = false;
  StepGraphs graphs(device_.get(), Plan());
  StepGraphs eager(nullptr, Plan());
  StepGraphs none(device_.get(), MemoryPlan());
  EXPECT_FALSE(graphs.on() || eager.on() || none.on());
  for (StepGraphs* each : {&graphs, &eager, &none}) {
    for (int round = 0; round < 3; ++round) EXPECT_THAT(Run(each, Decode(1)), ElementsAre(kPass));
  }
}

// tools/bench times the operations of some steps.
TEST_F(StepGraphsTest, PassesRunAsTheyAreWhileTheDeviceTakesNoGraphs) {
  StepGraphs graphs(device_.get(), Plan());
  Run(&graphs, Decode(1));
  const std::vector<std::string> recorded = Run(&graphs, Decode(1));
  support_.graphs = false;
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  support_.graphs = true;
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(recorded.back()));
}

TEST_F(StepGraphsTest, WhatTheDeviceRefusesToRecordRunsAndIsNotTriedAgain) {
  log_.refuses_graphs = true;
  StepGraphs graphs(device_.get(), Plan());
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass, "end graph", kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_TRUE(status_.ok());
}

TEST_F(StepGraphsTest, AnOperationThatFailsWhileItIsRecordedRunsAgain) {
  StepGraphs graphs(device_.get(), Plan());
  log_.fail_at = 2;  // the operation of the pass that is recorded
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass, "end graph", "destroy graph 4", kPass));
  EXPECT_TRUE(status_.ok());
}

TEST_F(StepGraphsTest, ABusyDeviceIsAskedAgain) {
  StepGraphs graphs(device_.get(), Plan());
  log_.fail_at = 1;  // "begin graph", as while another thread records
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass, "end graph", "launch graph 6"));
}

TEST_F(StepGraphsTest, AFailedLaunchIsThePassesFailure) {
  StepGraphs graphs(device_.get(), Plan());
  Run(&graphs, Decode(1));
  Run(&graphs, Decode(1));
  log_.fail_at = static_cast<int>(log_.lines.size());
  Run(&graphs, Decode(1));
  EXPECT_EQ(status_.code(), absl::StatusCode::kInternal);
}

TEST_F(StepGraphsTest, TheGraphUnusedForLongestMakesRoomAndAllAreDestroyed) {
  {
    StepGraphs graphs(device_.get(), Plan());
    for (int32_t round = 0; round < 2; ++round) {
      for (int32_t i = 0; i < kMaxGraphs; ++i) Run(&graphs, Decode(1, 1000 + i));
    }
    EXPECT_EQ(graphs.num_graphs(), kMaxGraphs);
    const std::vector<std::string> reused = Run(&graphs, Decode(1, 1000));  // now the second is the oldest
    ASSERT_EQ(reused.size(), 1u);
    // What is met once takes no graph's place, however much of it there is.
    for (int32_t i = 0; i < 3 * kMaxGraphs; ++i) ASSERT_THAT(Run(&graphs, Decode(2, 1000 + i)), ElementsAre(kPass));
    EXPECT_THAT(Run(&graphs, Decode(1, 1)), ElementsAre(kPass));
    const std::vector<std::string> evicted = Run(&graphs, Decode(1, 1));
    ASSERT_EQ(evicted.size(), 5u);
    EXPECT_EQ(evicted[0].substr(0, 13), "destroy graph");
    EXPECT_NE(evicted[0].substr(13), reused[0].substr(12));
    EXPECT_EQ(graphs.num_graphs(), kMaxGraphs);
    EXPECT_THAT(Run(&graphs, Decode(1, 1000)), ElementsAre(reused[0]));
    EXPECT_THAT(Run(&graphs, Decode(1, 1001)), testing::Contains(kPass)) << "it was destroyed";
  }
  const auto starting = [&](const std::string& word) {
    return std::count_if(log_.lines.begin(), log_.lines.end(),
                         [&](const std::string& line) { return line.rfind(word, 0) == 0; });
  };
  EXPECT_EQ(starting("destroy graph"), starting("end graph"));
}

TEST_F(StepGraphsTest, OnePassOfAStepIsRecorded) {
  StepGraphs graphs(device_.get(), Plan());
  for (const int32_t rows : {1, 2}) Run(&graphs, Decode(rows));
  graphs.BeginStep();
  const size_t before = log_.lines.size();
  for (const int32_t rows : {1, 2}) {
    ASSERT_TRUE(graphs
                    .Run({}, Decode(rows),
                         [&] {
                           (void)device_->ops->synchronize(device_->context);
                           return absl::OkStatus();
                         })
                    .ok());
  }
  EXPECT_EQ(log_.lines.size(), before + 4 + 1) << "the second runs as it is";
  EXPECT_EQ(log_.lines.back(), kPass);
  EXPECT_EQ(Run(&graphs, Decode(2)).size(), 4u) << "and is recorded in the next step";
}

TEST_F(StepGraphsTest, EachGraphIsGivenAPieceOfTheReserve) {
  {
    StepGraphs graphs(device_.get(), Plan(1000));
    EXPECT_EQ(log_.bytes_held, kMaxGraphs * 1000U);
    for (int32_t i = 0; i < kMaxGraphs + 3; ++i) {
      Run(&graphs, Decode(1, 1000 + i));
      Run(&graphs, Decode(1, 1000 + i));
      EXPECT_EQ(log_.bytes_held, static_cast<size_t>(std::max(kMaxGraphs - i - 1, 0)) * 1000U);
    }
    EXPECT_EQ(graphs.num_graphs(), kMaxGraphs);
  }
  {
    StepGraphs graphs(device_.get(), Plan(1000));
    log_.refuses_graphs = true;
    for (int32_t i = 0; i < 4; ++i) {
      Run(&graphs, Decode(1, 1000 + i));
      Run(&graphs, Decode(1, 1000 + i));
      EXPECT_EQ(graphs.num_failed(), i + 1);
      EXPECT_EQ(log_.bytes_held, (kMaxGraphs - 1) * 1000U) << "what was given for a recording that failed is left";
    }
  }
  EXPECT_EQ(log_.bytes_held, 0U);
}

TEST_F(StepGraphsTest, TurnedOffItHoldsNothing) {
  StepGraphs graphs(device_.get(), Plan(1000));
  for (int round = 0; round < 2; ++round) Run(&graphs, Decode(1));
  EXPECT_EQ(graphs.num_graphs(), 1);
  graphs.TurnOff();
  EXPECT_FALSE(graphs.on());
  EXPECT_EQ(graphs.num_graphs(), 0);
  EXPECT_EQ(log_.bytes_held, 0U);
  EXPECT_EQ(log_.lines.back().substr(0, 13), "destroy graph");
  for (int round = 0; round < 3; ++round) EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
}

TEST_F(StepGraphsTest, ThereAreAsManyGraphsAsTheDeviceHasRoomFor) {
  log_.bytes_left = 2500;
  StepGraphs graphs(device_.get(), Plan(1000));
  for (int32_t i = 0; i < 5; ++i) {
    Run(&graphs, Decode(1, 1000 + i));
    Run(&graphs, Decode(1, 1000 + i));
  }
  EXPECT_EQ(graphs.num_graphs(), 2);
  log_.bytes_left = 0;
  EXPECT_FALSE(StepGraphs(device_.get(), Plan(1000)).on());
}

TEST(DecodeShapes, RowsAndBoundsAreRoundedUpToFew) {
  EXPECT_EQ(RoundedRows(1, 32), 1);
  EXPECT_EQ(RoundedRows(5, 32), 8);
  EXPECT_EQ(RoundedRows(33, 64), 48);
  EXPECT_EQ(RoundedRows(33, 40), 40) << "all rows of a step";
  EXPECT_EQ(RoundedRows(65, 128), 65) << "is not recorded";
  EXPECT_EQ(RoundedBound(1, 8192), 512);
  EXPECT_EQ(RoundedBound(1025, 8192), 2048);
  EXPECT_EQ(RoundedBound(1025, 1500), 1500);
  EXPECT_EQ(RoundedBound(7, 100), 100);
  EXPECT_THAT(DecodeShapes(5, 1500),
              ElementsAre(DecodeShape{1, 512}, DecodeShape{2, 512}, DecodeShape{4, 512}, DecodeShape{5, 512},
                          DecodeShape{1, 1024}, DecodeShape{2, 1024}, DecodeShape{4, 1024}, DecodeShape{5, 1024},
                          DecodeShape{1, 1500}, DecodeShape{2, 1500}, DecodeShape{4, 1500}, DecodeShape{5, 1500}));
  EXPECT_EQ(DecodeShapes(256, 512).back(), (DecodeShape{64, 512}));
  for (const DecodeShape& shape : DecodeShapes(64, 131072)) {
    EXPECT_EQ(RoundedRows(shape.rows, 64), shape.rows);
    EXPECT_EQ(RoundedBound(shape.bound, 131072), shape.bound);
  }
}

}  // namespace
}  // namespace dunlin::engine
