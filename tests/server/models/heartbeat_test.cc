// SPDX-License-Identifier: Apache-2.0
// The watchdog by a fake clock: what it calls stalled, what not, and when that is over.
#include "server/models/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/models/fake_clock.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using Part = Heartbeat::Part;
using State = Heartbeat::Finding::State;
using ::testing::HasSubstr;

constexpr engine::TimeNs kMs = 1'000'000;
constexpr engine::TimeNs kSecond = 1000 * kMs;
constexpr engine::TimeNs kPeriod = 200 * kMs;

class HeartbeatTest : public ::testing::Test {
 protected:
  // Looks as often as the thread would during this time.
  void Pass(engine::TimeNs time) {
    for (; time > 0; time -= kPeriod) {
      FakeClock::Advance(kPeriod);
      heartbeat_.Look();
    }
  }
  void WatchPulse(const std::string& name = "part", Part part = Part::kTextPool) {
    heartbeat_.Watch(name, part, [this] { return pulse_; });
    heartbeat_.Look();
  }

  Heartbeat heartbeat_{&FakeClock::Now, 10 * kSecond};
  Heartbeat::Pulse pulse_;
};

TEST_F(HeartbeatTest, APartThatStandsStillStallsAfterTheLimitAndRecoversWhenItGoesOn) {
  WatchPulse("text pool");
  Pass(10 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
  EXPECT_EQ(heartbeat_.sick_reason(), "");
  Pass(kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kStalled);
  EXPECT_EQ(heartbeat_.finding().part, Part::kTextPool);
  EXPECT_THAT(heartbeat_.sick_reason(), HasSubstr("text pool: no progress for 11"));
  Pass(5 * kSecond);
  EXPECT_NEAR(static_cast<double>(heartbeat_.finding().stalled_for), 5.8e9, 0.3e9) << "since it was found";
  ++pulse_.count;
  Pass(kPeriod);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
  EXPECT_EQ(heartbeat_.finding().stalled_for, 0);
  Pass(10 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy) << "a new limit begins";
}

TEST_F(HeartbeatTest, NothingToDoIsHealthyForEver) {
  pulse_.idle = true;
  WatchPulse();
  Pass(3600 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
  pulse_.idle = false;
  Pass(10 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy) << "the limit begins with the work";
}

// SIGSTOP and SIGCONT, a suspended virtual machine: the watchdog did not look either.
TEST_F(HeartbeatTest, AJumpOfTheClockAloneIsNoStall) {
  WatchPulse();
  Pass(5 * kSecond);
  for (int i = 0; i < 4; ++i) {
    FakeClock::Advance(3600 * kSecond);
    heartbeat_.Look();
  }
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
  Pass(2 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kStalled) << "but a part that stays still is found";
}

TEST_F(HeartbeatTest, AForgottenPartIsNotReadAnyMore) {
  WatchPulse();
  Pass(11 * kSecond);
  ASSERT_EQ(heartbeat_.finding().state, State::kStalled);
  heartbeat_.Forget("part");
  heartbeat_.Forget("never named");
  Pass(kPeriod);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
}

class SilentSink final : public engine::OutputSink {
 public:
  bool OnToken(const engine::TokenOutput&) override { return true; }
  void OnPromptToken(int32_t, const engine::TokenOutput&) override {}
  void OnFinish(const engine::FinishInfo&) override {}
};

class EngineHeartbeatTest : public HeartbeatTest {
 protected:
  EngineHeartbeatTest() { models_.repository().Subscribe(&heartbeat_); }
  ~EngineHeartbeatTest() override {
    models_.control().held = false;
    models_.repository().Unsubscribe(&heartbeat_);
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

TEST_F(EngineHeartbeatTest, AnEngineWithWorkThatTakesNoStepStalls) {
  Pass(60 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy) << "idle";
  models_.control().held = true;
  SubmitOne();
  Pass(11 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kStalled);
  EXPECT_EQ(heartbeat_.finding().part, Part::kEngine);
  EXPECT_THAT(heartbeat_.sick_reason(), HasSubstr("model bare: no progress for"));
  models_.control().held = false;
  ASSERT_TRUE(Eventually([this] { return Idle(); }));
  Pass(kPeriod);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
}

TEST_F(EngineHeartbeatTest, ForgetsARemovedModel) {
  models_.control().held = true;
  SubmitOne();
  Pass(11 * kSecond);
  ASSERT_EQ(heartbeat_.finding().state, State::kStalled);
  models_.repository().Remove("bare");
  Pass(kPeriod);
  EXPECT_EQ(heartbeat_.finding().state, State::kHealthy);
}

TEST_F(EngineHeartbeatTest, AFailedDeviceComesBeforeAStalledPart) {
  WatchPulse();
  models_.control().fail = true;
  SubmitOne();
  ASSERT_TRUE(Eventually([this] { return models_.model("bare").engine->stats().failed; }));
  Pass(11 * kSecond);
  EXPECT_EQ(heartbeat_.finding().state, State::kFailed);
  EXPECT_EQ(heartbeat_.sick_reason(), "model bare: the device failed");
}

}  // namespace
}  // namespace dunlin::server
