// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/stall_watch.h"

#include <gtest/gtest.h>

namespace dunlin::server {
namespace {

struct CountingCall final : StallWatch::Call {
  explicit CountingCall(engine::TimeNs unread) : since(unread) {}
  engine::TimeNs unread_since() const override { return since; }
  void CutOff() override { ++cuts; }
  engine::TimeNs since;
  int cuts = 0;
};

TEST(StallWatch, CutsACallOffOnceWhenItIsDue) {
  StallWatch watch(100);
  const auto call = std::make_shared<CountingCall>(1000);
  watch.Watch(call);
  watch.Sweep(1099);
  EXPECT_EQ(call->cuts, 0);
  watch.Sweep(1100);
  watch.Sweep(1500);
  EXPECT_EQ(call->cuts, 1);
}

TEST(StallWatch, ACallThatWaitsForTheServerIsNoSlowReader) {
  StallWatch watch(100);
  const auto call = std::make_shared<CountingCall>(0);
  watch.Watch(call);
  watch.Sweep(100000);
  EXPECT_EQ(call->cuts, 0);
  call->since = 100000;  // a write began
  watch.Sweep(100099);
  call->since = 100050;  // it was read, and the next one began
  watch.Sweep(100149);
  EXPECT_EQ(call->cuts, 0);
  watch.Sweep(100150);
  EXPECT_EQ(call->cuts, 1);
}

TEST(StallWatch, LeavesAForgottenCallAlone) {
  StallWatch watch(100);
  const auto forgotten = std::make_shared<CountingCall>(1);
  const auto other = std::make_shared<CountingCall>(1);
  watch.Watch(forgotten);
  watch.Watch(other);
  watch.Forget(forgotten.get());
  watch.Sweep(101);
  EXPECT_EQ(forgotten->cuts, 0);
  EXPECT_EQ(other->cuts, 1);
}

TEST(StallWatch, DoesNotKeepACallAlive) {
  StallWatch watch(100);
  auto call = std::make_shared<CountingCall>(1);
  const std::weak_ptr<CountingCall> weak = call;
  watch.Watch(call);
  call.reset();
  EXPECT_TRUE(weak.expired());
  watch.Sweep(100);
}

// As a real one does: its end reaches Forget while it is being cut off.
TEST(StallWatch, ACallMayBeForgottenWhileItIsCutOff) {
  struct EndingCall final : StallWatch::Call {
    explicit EndingCall(StallWatch* w) : watch(w) {}
    engine::TimeNs unread_since() const override { return 5; }
    void CutOff() override {
      watch->Forget(this);
      cut = true;
    }
    StallWatch* watch;
    bool cut = false;
  };
  StallWatch watch(0);
  const auto call = std::make_shared<EndingCall>(&watch);
  watch.Watch(call);
  watch.Sweep(5);
  EXPECT_TRUE(call->cut);
}

}  // namespace
}  // namespace dunlin::server
