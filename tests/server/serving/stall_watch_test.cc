// SPDX-License-Identifier: Apache-2.0
#include "server/serving/stall_watch.h"

#include <gtest/gtest.h>

namespace dunlin::server {
namespace {

struct CountingCall final : StallWatch::Call {
  void CutOff() override { ++cuts; }
  int cuts = 0;
};

TEST(StallWatch, CutsACallOffOnceWhenItIsDue) {
  StallWatch watch(100);
  const auto call = std::make_shared<CountingCall>();
  watch.Watch(call, 1000);
  watch.Sweep(1099);
  EXPECT_EQ(call->cuts, 0);
  watch.Sweep(1100);
  watch.Sweep(1500);
  EXPECT_EQ(call->cuts, 1);
}

TEST(StallWatch, LeavesAForgottenCallAlone) {
  StallWatch watch(100);
  const auto forgotten = std::make_shared<CountingCall>();
  const auto other = std::make_shared<CountingCall>();
  watch.Watch(forgotten, 0);
  watch.Watch(other, 0);
  watch.Forget(forgotten.get());
  watch.Sweep(100);
  EXPECT_EQ(forgotten->cuts, 0);
  EXPECT_EQ(other->cuts, 1);
}

TEST(StallWatch, DoesNotKeepACallAlive) {
  StallWatch watch(100);
  auto call = std::make_shared<CountingCall>();
  const std::weak_ptr<CountingCall> weak = call;
  watch.Watch(call, 0);
  call.reset();
  EXPECT_TRUE(weak.expired());
  watch.Sweep(100);
}

// As a real one does: its end reaches Forget while it is being cut off.
TEST(StallWatch, ACallMayBeForgottenWhileItIsCutOff) {
  struct EndingCall final : StallWatch::Call {
    explicit EndingCall(StallWatch* w) : watch(w) {}
    void CutOff() override {
      watch->Forget(this);
      cut = true;
    }
    StallWatch* watch;
    bool cut = false;
  };
  StallWatch watch(0);
  const auto call = std::make_shared<EndingCall>(&watch);
  watch.Watch(call, 5);
  watch.Sweep(5);
  EXPECT_TRUE(call->cut);
}

}  // namespace
}  // namespace dunlin::server
