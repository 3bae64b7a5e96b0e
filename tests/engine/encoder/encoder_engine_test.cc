// SPDX-License-Identifier: Apache-2.0
// The encoder's engine with its thread, on a runtime that can be held and can fail.
#include "engine/encoder/encoder_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "tests/engine/encoder/calls.h"
#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

std::atomic<TimeNs> clock_ns{1};
TimeNs Now() {
  return clock_ns.load();
}

// Writes the input's length into its vector.
class ScriptedEncoder : public EncoderRuntime {
 public:
  ScriptedEncoder(StepGate* gate, int fail_at) : gate_(gate), fail_at_(fail_at) {}
  absl::Status Run(EncodeBatch* batch) override {
    gate_->Pass();
    if (++num_batches_ == fail_at_) return absl::InternalError("scripted");
    for (BatchInput& input : batch->inputs) input.vector[0] = static_cast<float>(input.num_tokens);
    return absl::OkStatus();
  }

 private:
  StepGate* const gate_;
  const int fail_at_;
  int num_batches_ = 0;
};

class EncoderEngineTest : public ::testing::Test {
 protected:
  EncoderEngineTest() {
    clock_ns = 1;
    options_.max_sequences = 4;
    options_.max_tokens_per_step = 16;
    options_.max_queued_requests = 3;
    options_.max_queued_tokens = 100;
    config_.kind = ModelKind::kEncoder;
    config_.vocab_size = 50;
    config_.hidden_dim = 8;
    config_.max_context = 32;
  }
  void Start(int fail_at = 0) {
    engine_ = std::make_unique<EncoderEngine>(options_, config_, std::make_unique<ScriptedEncoder>(&gate_, fail_at),
                                              &Now, nullptr);
  }
  void TearDown() override {
    gate_.Open();
    if (engine_ != nullptr) engine_->Stop();
  }
  absl::StatusOr<RequestId> Submit(std::unique_ptr<EncodeCall> call, std::shared_ptr<RecordingEncodeSink> sink) {
    return engine_->Submit(std::move(call), std::move(sink));
  }

  StepGate gate_;
  EngineOptions options_;
  ModelConfig config_;
  std::unique_ptr<EncoderEngine> engine_;
};

TEST_F(EncoderEngineTest, FillsTheVectorsAndGoesIdle) {
  Start();
  auto sink = std::make_shared<RecordingEncodeSink>();
  ASSERT_TRUE(Submit(TestCall({5, 30, 7}), sink).ok());
  ASSERT_TRUE(sink->Wait());
  EXPECT_EQ(sink->call->reason, FinishReason::kStop);
  EXPECT_THAT(sink->call->vectors, ::testing::ElementsAre(5, 0, 30, 0, 7, 0));
  EXPECT_TRUE(simulation::RecordingSink::WaitUntil([&] { return engine_->stats().idle; }));
  EXPECT_EQ(engine_->stats().prompt_tokens, 42U);
  EXPECT_EQ(engine_->max_context_tokens(), 32);
}

TEST_F(EncoderEngineTest, RefusesWhatTheQueueCannotHoldAndNamesTheKey) {
  gate_.Close();
  Start();
  auto sink = std::make_shared<RecordingEncodeSink>();
  ASSERT_TRUE(Submit(TestCall({30}), sink).ok());
  gate_.WaitUntilHeld();
  const absl::Status tokens = Submit(TestCall({30, 30, 30}), sink).status();
  EXPECT_TRUE(absl::IsResourceExhausted(tokens));
  EXPECT_THAT(std::string(tokens.message()), HasSubstr("queue has 30 prompt tokens and the request 90; limit is 100"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Submit(TestCall({1}), std::make_shared<RecordingEncodeSink>()).ok());
  const absl::Status calls = Submit(TestCall({1}), sink).status();
  EXPECT_TRUE(absl::IsResourceExhausted(calls));
  EXPECT_THAT(std::string(calls.message()), HasSubstr("scheduler.max_queued_requests"));
  EXPECT_EQ(engine_->stats().running, 1);
  EXPECT_EQ(engine_->stats().waiting, 2);
  gate_.Open();
  ASSERT_TRUE(sink->Wait());
  EXPECT_EQ(sink->num_finishes, 1);
}

TEST_F(EncoderEngineTest, ACancelEndsACallAfterTheBatchAtHand) {
  gate_.Close();
  Start();
  auto running = std::make_shared<RecordingEncodeSink>();
  auto queued = std::make_shared<RecordingEncodeSink>();
  const RequestId first = *Submit(TestCall({30, 30}), running);
  const RequestId second = *Submit(TestCall({30}), queued);
  gate_.WaitUntilHeld();
  engine_->Cancel(first, FinishReason::kCancelled);
  engine_->Cancel(second, FinishReason::kCancelled);
  gate_.Open();
  ASSERT_TRUE(running->Wait() && queued->Wait());
  EXPECT_EQ(running->call->reason, FinishReason::kCancelled);
  EXPECT_EQ(queued->call->reason, FinishReason::kCancelled);
  EXPECT_EQ(queued->call->first_scheduled, 0);
  EXPECT_TRUE(simulation::RecordingSink::WaitUntil([&] { return engine_->stats().idle; }));
  EXPECT_EQ(engine_->stats().steps, 1U);
}

TEST_F(EncoderEngineTest, ADeadlineEndsACallBetweenBatches) {
  gate_.Close();
  Start();
  auto sink = std::make_shared<RecordingEncodeSink>();
  auto call = TestCall({30, 30});
  call->request.deadline = 100;
  ASSERT_TRUE(Submit(std::move(call), sink).ok());
  gate_.WaitUntilHeld();
  clock_ns = 100;
  gate_.Open();
  ASSERT_TRUE(sink->Wait());
  EXPECT_EQ(sink->call->reason, FinishReason::kDeadline);
}

TEST_F(EncoderEngineTest, AFailedDeviceEndsEverythingAndStaysDown) {
  gate_.Close();
  Start(2);
  std::vector<std::shared_ptr<RecordingEncodeSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<RecordingEncodeSink>());
    ASSERT_TRUE(Submit(TestCall({30}), sinks.back()).ok());
  }
  gate_.Open();
  for (const auto& sink : sinks) ASSERT_TRUE(sink->Wait());
  EXPECT_EQ(sinks[0]->call->reason, FinishReason::kStop);
  EXPECT_EQ(sinks[1]->call->reason, FinishReason::kInternal);
  EXPECT_EQ(sinks[2]->call->reason, FinishReason::kInternal);
  EXPECT_TRUE(engine_->stats().failed);
  EXPECT_TRUE(absl::IsInternal(Submit(TestCall({1}), sinks[0]).status()));
}

TEST_F(EncoderEngineTest, DrainingRefusesAndStopEndsWhatIsLeft) {
  gate_.Close();
  Start();
  auto sink = std::make_shared<RecordingEncodeSink>();
  ASSERT_TRUE(Submit(TestCall({30, 30, 30}), sink).ok());
  gate_.WaitUntilHeld();
  engine_->StartDraining();
  EXPECT_TRUE(absl::IsUnavailable(Submit(TestCall({1}), sink).status()));
  std::thread opener([this] {
    gate_.LetOneThrough();
    gate_.Open();
  });
  opener.join();
  engine_->Stop();
  ASSERT_EQ(sink->num_finishes, 1);
  EXPECT_TRUE(sink->call->reason == FinishReason::kStop || sink->call->reason == FinishReason::kShutdown);
}

}  // namespace
}  // namespace dunlin::engine
