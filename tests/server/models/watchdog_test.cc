// SPDX-License-Identifier: Apache-2.0
// The watchdog with a fake clock: which parts it reports as stalled, and when a stall ends.
#include "server/models/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/server/models/fake_clock.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using Part = Watchdog::Part;
using State = Watchdog::HealthReport::State;
using ::testing::HasSubstr;

constexpr engine::TimeNs kMs = 1'000'000;
constexpr engine::TimeNs kSecond = 1000 * kMs;
constexpr engine::TimeNs kPeriod = 200 * kMs;

class WatchdogTest : public ::testing::Test {
 protected:
  // Polls as often as the thread would during this time.
  void Pass(engine::TimeNs time) {
    for (; time > 0; time -= kPeriod) {
      FakeClock::Advance(kPeriod);
      watchdog_.Poll();
    }
  }
  void WatchProgress(const std::string& name = "part", Part part = Part::kTextPool) {
    watchdog_.Watch(name, part, [this] { return progress_; });
    watchdog_.Poll();
  }

  Watchdog watchdog_{&FakeClock::Now, 10 * kSecond};
  Watchdog::Progress progress_;
};

TEST_F(WatchdogTest, StalledPartIsReportedAfterTheLimitAndRecoversWithProgress) {
  WatchProgress("text pool");
  Pass(10 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
  EXPECT_EQ(watchdog_.unhealthy_reason(), "");
  Pass(kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kStalled);
  EXPECT_EQ(watchdog_.report().part, Part::kTextPool);
  EXPECT_THAT(watchdog_.unhealthy_reason(), HasSubstr("text pool: no progress for 11"));
  Pass(5 * kSecond);
  EXPECT_NEAR(static_cast<double>(watchdog_.report().stalled_for), 5.8e9, 0.3e9) << "since it was found";
  ++progress_.count;
  Pass(kPeriod);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
  EXPECT_EQ(watchdog_.report().stalled_for, 0);
  Pass(10 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy) << "a new limit begins";
}

TEST_F(WatchdogTest, IdlePartStaysHealthy) {
  progress_.idle = true;
  WatchProgress();
  Pass(3600 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
  progress_.idle = false;
  Pass(10 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy) << "the limit begins with the work";
}

// SIGSTOP and SIGCONT, a suspended virtual machine: the watchdog did not poll either.
TEST_F(WatchdogTest, ClockJumpIsNotAStall) {
  WatchProgress();
  Pass(5 * kSecond);
  for (int i = 0; i < 4; ++i) {
    FakeClock::Advance(3600 * kSecond);
    watchdog_.Poll();
  }
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
  Pass(2 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kStalled) << "but a part that stays still is found";
}

// A part whose read hangs, because whoever stalled holds its lock, ends the polls and not the detection.
TEST_F(WatchdogTest, PollsThatHangAreAStallOfWhatTheyRead) {
  WatchProgress("text pool");
  watchdog_.Supervise();
  absl::Notification reads;
  absl::Notification let_go;
  watchdog_.Watch("HTTP", Part::kTransport, [&] {
    if (!reads.HasBeenNotified()) reads.Notify();
    let_go.WaitForNotification();
    return Watchdog::Progress{0, true};
  });
  int calls = 0;
  watchdog_.CallAfterStall(4 * kSecond, [&] { ++calls; });
  std::thread poller([&] { watchdog_.Poll(); });
  reads.WaitForNotification();
  const auto pass = [&](engine::TimeNs time) {
    for (; time > 0; time -= kPeriod) {
      FakeClock::Advance(kPeriod);
      watchdog_.Supervise();
    }
  };
  pass(10 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
  FakeClock::Advance(3600 * kSecond);  // the process was stopped
  watchdog_.Supervise();
  pass(kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kStalled);
  EXPECT_EQ(watchdog_.report().part, Part::kTransport);
  EXPECT_THAT(watchdog_.unhealthy_reason(), HasSubstr("HTTP: gives no answer for 1"));
  EXPECT_EQ(calls, 0);
  pass(5 * kSecond);
  EXPECT_GT(calls, 0);
  EXPECT_NEAR(static_cast<double>(watchdog_.report().stalled_for), 7e9, 0.5e9);
  let_go.Notify();
  poller.join();
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
  pass(9 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy) << "a new limit begins";
}

// A stall that a poll has found goes on while the next one hangs.
TEST_F(WatchdogTest, AHangingPollDoesNotEndAStall) {
  WatchProgress("text pool");
  Pass(12 * kSecond);
  ASSERT_EQ(watchdog_.report().state, State::kStalled);
  const engine::TimeNs before = watchdog_.report().stalled_for;
  watchdog_.Supervise();
  for (int i = 0; i < 100; ++i) {
    FakeClock::Advance(kPeriod);
    watchdog_.Supervise();
  }
  EXPECT_NEAR(static_cast<double>(watchdog_.report().stalled_for - before), 20e9, 0.3e9);
  EXPECT_THAT(watchdog_.unhealthy_reason(), HasSubstr("text pool: no progress for"));
}

TEST_F(WatchdogTest, UnwatchedPartIsNotRead) {
  WatchProgress();
  Pass(11 * kSecond);
  ASSERT_EQ(watchdog_.report().state, State::kStalled);
  watchdog_.Unwatch("part");
  watchdog_.Unwatch("never named");
  Pass(kPeriod);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
}

class SilentSink final : public engine::OutputSink {
 public:
  bool OnToken(const engine::TokenOutput&) override { return true; }
  void OnPromptToken(int32_t, const engine::TokenOutput&) override {}
  void OnFinish(const engine::FinishInfo&) override {}
};

class EngineWatchdogTest : public WatchdogTest {
 protected:
  EngineWatchdogTest() { models_.repository().Subscribe(&watchdog_); }
  ~EngineWatchdogTest() override {
    models_.control().held = false;
    models_.repository().Unsubscribe(&watchdog_);
  }
  void SubmitOne() {
    engine::Request request;
    request.prompt = {11, 12, 13, 14};
    request.profile.precision = engine::Precision::kFp32;
    request.stopping.max_tokens = 4;
    ASSERT_TRUE(models_.model("bare").engine->Submit(request, std::make_shared<SilentSink>()).ok());
  }
  bool Idle() { return models_.model("bare").engine->stats().idle; }

  TestModels models_{engine::EngineOptions()};
};

TEST_F(EngineWatchdogTest, EngineWithWorkAndNoStepStalls) {
  Pass(60 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy) << "idle";
  models_.control().held = true;
  SubmitOne();
  Pass(11 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kStalled);
  EXPECT_EQ(watchdog_.report().part, Part::kEngine);
  EXPECT_THAT(watchdog_.unhealthy_reason(), HasSubstr("model bare: no progress for"));
  models_.control().held = false;
  ASSERT_TRUE(Eventually([this] { return Idle(); }));
  Pass(kPeriod);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
}

TEST_F(EngineWatchdogTest, NamesTheRankOfADividedModel) {
  models_.control().held = true;
  models_.control().rank_at_fault = 1;
  SubmitOne();
  Pass(11 * kSecond);
  EXPECT_THAT(watchdog_.unhealthy_reason(), HasSubstr("model bare, rank 1: no progress for"));
  std::vector<ModelStatus> models(2);
  models[0].name = "bare";
  models[1].name = "tiny";
  models = watchdog_.WithHealth(models);
  EXPECT_TRUE(models[0].unhealthy);
  EXPECT_EQ(models[0].rank_at_fault, 1);
  EXPECT_FALSE(models[1].unhealthy);
  models_.control().held = false;
  ASSERT_TRUE(Eventually([this] { return Idle(); }));
  Pass(kPeriod);
  models[0].unhealthy = false;
  EXPECT_FALSE(watchdog_.WithHealth(models)[0].unhealthy);
}

TEST_F(EngineWatchdogTest, RemovedModelIsNotWatched) {
  models_.control().held = true;
  SubmitOne();
  Pass(11 * kSecond);
  ASSERT_EQ(watchdog_.report().state, State::kStalled);
  models_.repository().Remove("bare");
  Pass(kPeriod);
  EXPECT_EQ(watchdog_.report().state, State::kHealthy);
}

TEST_F(EngineWatchdogTest, FailedDeviceIsReportedBeforeAStalledPart) {
  WatchProgress();
  models_.control().fail = true;
  SubmitOne();
  ASSERT_TRUE(Eventually([this] { return models_.model("bare").engine->stats().failed; }));
  Pass(11 * kSecond);
  EXPECT_EQ(watchdog_.report().state, State::kFailed);
  EXPECT_EQ(watchdog_.unhealthy_reason(), "model bare: the device failed");
  models_.control().rank_at_fault = 2;
  Pass(kPeriod);
  EXPECT_EQ(watchdog_.unhealthy_reason(), "model bare, rank 2: the device failed");
}

}  // namespace
}  // namespace dunlin::server
