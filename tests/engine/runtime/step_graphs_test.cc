// SPDX-License-Identifier: Apache-2.0
// Which passes are recorded and launched as graphs, when, and what happens where a device refuses.
#include "engine/runtime/step_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    status_ = graphs->Run(profile, inputs, [&] {
      const bool ran = device_->ops->synchronize(device_->context) == kernels::KernelStatus::kOk;
      return ran ? absl::OkStatus() : absl::InternalError("the pass");
    });
    return {log_.lines.begin() + static_cast<std::ptrdiff_t>(before), log_.lines.end()};
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
  StepGraphs graphs(device_.get());
  EXPECT_TRUE(graphs.on());
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre("begin graph", kPass, "end graph", "launch graph 4"));
  EXPECT_THAT(Run(&graphs, Decode(3)), ElementsAre("launch graph 4"));
  EXPECT_TRUE(status_.ok());
}

TEST_F(StepGraphsTest, PassesThatDifferHaveGraphsOfTheirOwn) {
  StepGraphs graphs(device_.get());
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

TEST_F(StepGraphsTest, PromptsManyRowsAndStatesRunAsTheyAre) {
  StepGraphs graphs(device_.get());
  PassInputs prompt = Decode(3);
  prompt.num_decode_tokens = 2;
  PassInputs recurrent = Decode(3);
  const StatePart part{.count = 3};
  recurrent.state_parts = {&part, 1};
  for (const PassInputs& inputs : {prompt, recurrent, Decode(kMaxGraphRows + 1), Decode(0)}) {
    for (int round = 0; round < 3; ++round) EXPECT_THAT(Run(&graphs, inputs), ElementsAre(kPass));
  }
}

TEST_F(StepGraphsTest, ADeviceWithoutGraphsIsNotAsked) {
  support_.graphs = false;
  StepGraphs graphs(device_.get());
  StepGraphs eager(nullptr);
  EXPECT_FALSE(graphs.on() || eager.on());
  for (StepGraphs* each : {&graphs, &eager}) {
    for (int round = 0; round < 3; ++round) EXPECT_THAT(Run(each, Decode(1)), ElementsAre(kPass));
  }
}

// tools/bench times the operations of some steps.
TEST_F(StepGraphsTest, PassesRunAsTheyAreWhileTheDeviceTakesNoGraphs) {
  StepGraphs graphs(device_.get());
  Run(&graphs, Decode(1));
  const std::vector<std::string> recorded = Run(&graphs, Decode(1));
  support_.graphs = false;
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  support_.graphs = true;
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(recorded.back()));
}

TEST_F(StepGraphsTest, WhatTheDeviceRefusesToRecordRunsAndIsNotTriedAgain) {
  log_.refuses_graphs = true;
  StepGraphs graphs(device_.get());
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass, "end graph", kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_TRUE(status_.ok());
}

TEST_F(StepGraphsTest, AnOperationThatFailsWhileItIsRecordedRunsAgain) {
  StepGraphs graphs(device_.get());
  log_.fail_at = 2;  // the operation of the pass that is recorded
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass, "end graph", "destroy graph 4", kPass));
  EXPECT_TRUE(status_.ok());
}

TEST_F(StepGraphsTest, ABusyDeviceIsAskedAgain) {
  StepGraphs graphs(device_.get());
  log_.fail_at = 1;  // "begin graph", as while another thread records
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre(kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass));
  EXPECT_THAT(Run(&graphs, Decode(1)), ElementsAre("begin graph", kPass, "end graph", "launch graph 6"));
}

TEST_F(StepGraphsTest, AFailedLaunchIsThePassesFailure) {
  StepGraphs graphs(device_.get());
  Run(&graphs, Decode(1));
  Run(&graphs, Decode(1));
  log_.fail_at = static_cast<int>(log_.lines.size());
  Run(&graphs, Decode(1));
  EXPECT_EQ(status_.code(), absl::StatusCode::kInternal);
}

TEST_F(StepGraphsTest, TheGraphUnusedForLongestMakesRoomAndAllAreDestroyed) {
  {
    StepGraphs graphs(device_.get());
    const auto contexts = static_cast<int32_t>(kMaxGraphs);
    for (int32_t round = 0; round < 2; ++round) {
      for (int32_t i = 0; i < contexts; ++i) Run(&graphs, Decode(1, 1000 + i));
    }
    const std::vector<std::string> reused = Run(&graphs, Decode(1, 1000));  // now the second is the oldest
    ASSERT_EQ(reused.size(), 1u);
    const std::vector<std::string> evicted = Run(&graphs, Decode(1, 1));
    ASSERT_EQ(evicted.size(), 2u);
    EXPECT_EQ(evicted[0].substr(0, 13), "destroy graph");
    EXPECT_NE(evicted[0].substr(13), reused[0].substr(12));
    EXPECT_THAT(Run(&graphs, Decode(1, 1000)), ElementsAre(reused[0]));
    EXPECT_THAT(Run(&graphs, Decode(1, 1001)), testing::Contains(kPass)) << "it was destroyed";
  }
  const auto starting = [&](const std::string& word) {
    return std::count_if(log_.lines.begin(), log_.lines.end(),
                         [&](const std::string& line) { return line.rfind(word, 0) == 0; });
  };
  EXPECT_EQ(starting("destroy graph"), starting("end graph"));
}

}  // namespace
}  // namespace dunlin::engine
