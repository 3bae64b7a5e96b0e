// SPDX-License-Identifier: Apache-2.0
// Tokens reach a client whatever other prompts cost, and a client is called slow only for what it does not read itself.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/serving/record/errors.h"
#include "server/serving/text/encode_text.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

ServingOptions OneTextThread() {
  ServingOptions options;
  options.text_threads = 1;
  return options;
}

class DeliveryTest : public testing::Test {
 protected:
  explicit DeliveryTest(const Limits& limits = {})
      : models_({}), core_(limits, models_.repository(), nullptr, OneTextThread()) {
    core_.Open();
  }
  ~DeliveryTest() override {
    release_ = true;
    models_.control().held = false;
    core_.StartDraining(AdmissionRefusal::kDraining);
    EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
    models_.repository().StopEngines();
  }

  struct Blocker : TextTask {
    Blocker(std::atomic<bool>* released, bool delivering) : release(released), delivers(delivering) {}
    void Run() override {
      if (delivers && ++runs == 1) return UseDeliveryLane();
      blocks = true;
      while (!*release) std::this_thread::yield();
    }
    std::atomic<bool>* const release;
    const bool delivers;
    std::atomic<int> runs{0};
    std::atomic<bool> blocks{false};
  };

  // Takes the thread that reads prompts.
  void BlockPrompts() {
    blockers_.push_back(std::make_shared<Blocker>(&release_, false));
    core_.text_pool()->Schedule(blockers_.back().get());
    ASSERT_TRUE(Eventually([this] { return blockers_.back()->blocks.load(); }));
  }

  // Takes both threads of the pool.
  void BlockAll() {
    for (int i = 0; i < 2; ++i) {
      blockers_.push_back(std::make_shared<Blocker>(&release_, true));
      Blocker* blocker = blockers_.back().get();
      core_.text_pool()->Schedule(blocker);
      ASSERT_TRUE(Eventually([blocker] { return blocker->runs == 1; }));
    }
    for (const auto& blocker : blockers_) core_.text_pool()->Schedule(blocker.get());
    for (const auto& blocker : blockers_) ASSERT_TRUE(Eventually([&] { return blocker->blocks.load(); }));
  }

  std::shared_ptr<FakeGenerateCall> Start(int32_t max_tokens, bool holds_writes = false) {
    auto call = std::make_shared<FakeGenerateCall>(ClientTextRequest("abc", max_tokens));
    if (holds_writes) call->HoldWrites();
    FakeGenerateCall::Start(&core_, call);
    return call;
  }

  std::atomic<bool> release_{false};
  std::vector<std::shared_ptr<Blocker>> blockers_;
  TestModels models_;
  ServingCore core_;
};

TEST_F(DeliveryTest, AStreamEndsWhileThePoolReadsPrompts) {
  models_.control().step_us = 1000;
  const auto call = Start(50);
  ASSERT_TRUE(Eventually([&] { return call->num_chunks() >= 2; }));
  BlockPrompts();
  std::vector<std::shared_ptr<FakeGenerateCall>> prompts;
  for (int i = 0; i < 32; ++i) {
    prompts.push_back(std::make_shared<FakeGenerateCall>(ClientTextRequest(std::string(2000, 'a'), 1)));
    FakeGenerateCall::Start(&core_, prompts.back(), engine::kNoDeadline, 2000);
  }
  const FakeResponse response = call->WaitUntilFinished();
  EXPECT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).token_ids.size(), 50U);
  for (const auto& prompt : prompts) EXPECT_EQ(prompt->num_chunks(), 0U) << "they wait";
  release_ = true;
  for (const auto& prompt : prompts) prompt->WaitUntilFinished();
}

TEST_F(DeliveryTest, ATextWithoutCutsWaitsForItsShareOfTheBudget) {
  const text::Tokenizer& tokenizer = *models_.model("tiny").tokenizer;
  std::atomic<bool> encoded{false};
  std::thread wide;
  {
    const TextBudget::Share all = core_.text_budget()->Take(core_.limits().max_tokenising_bytes);
    std::string words;
    while (words.size() < 200'000) words += "word ";
    EXPECT_TRUE(EncodeText(core_, tokenizer, words, {}).ok()) << "in pieces that need no share";
    EXPECT_FALSE(EncodeText(core_, tokenizer, std::string(200'000, 'a'), {.max_tokens = 100}).ok()) << "refused unread";
    wide = std::thread([&] {
      EXPECT_TRUE(EncodeText(core_, tokenizer, std::string(200'000, 'a'), {}).ok());
      encoded = true;
    });
    absl::SleepFor(absl::Milliseconds(30));
    EXPECT_FALSE(encoded);
  }
  wide.join();
  EXPECT_TRUE(encoded);
}

class SmallQueueTest : public DeliveryTest {
 protected:
  SmallQueueTest() : DeliveryTest(Limits{.max_unsent_tokens = 16}) {}
};

TEST_F(SmallQueueTest, AClientIsNotCalledSlowWhenOurOwnThreadsAre) {
  models_.control().held = true;
  const auto call = Start(100);
  BlockAll();
  models_.control().held = false;
  ASSERT_TRUE(Eventually([&] { return models_.model("tiny").engine->stats().idle; }));
  release_ = true;
  const FakeResponse response = call->WaitUntilFinished();
  EXPECT_EQ(ReasonName(response.status), "DELIVERY_BEHIND") << response.status;
  EXPECT_TRUE(absl::IsUnavailable(response.status));
}

class SlowReaderTest : public DeliveryTest {
 protected:
  SlowReaderTest() : DeliveryTest(Limits{.slow_reader_timeout_ms = 150}) {}
};

TEST_F(SlowReaderTest, AWriteThatIsNotReadEndsTheCallInTheMiddle) {
  models_.control().step_us = 5000;
  const auto call = Start(500, true);
  EXPECT_TRUE(Eventually([&] { return call->cut_off(); }));
  call->Cancel();  // as a transport does after CutOff
  EXPECT_EQ(ReasonName(call->WaitUntilFinished().status), "SLOW_READER");
  EXPECT_LT(models_.control().tokens, 500) << "it was not waited for";
  call->Close();
}

TEST_F(SlowReaderTest, AClientThatWaitsForTheEngineIsNotSlow) {
  models_.control().held = true;
  const auto call = Start(4);
  absl::SleepFor(absl::Milliseconds(600));  // several sweeps
  EXPECT_FALSE(call->cut_off());
  models_.control().held = false;
  EXPECT_TRUE(call->WaitUntilFinished().status.ok());
}

}  // namespace
}  // namespace dunlin::server
