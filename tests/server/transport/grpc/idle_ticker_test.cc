// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/idle_ticker.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace dunlin::server {
namespace {

constexpr int kTickers = 200;  // some are destroyed while the thread of their last tick is still busy

class IdleTickers : public ::testing::Test {
 protected:
  IdleTickers() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
  }

  std::shared_ptr<grpc::Channel> NewChannel() { return server_->InProcessChannel(grpc::ChannelArguments()); }

  grpc::health::v1::Health::CallbackService health_;  // answers that it does not know the method
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(IdleTickers, TickAtOnce) {
  absl::Notification ticked;
  const IdleTicker ticker(NewChannel(), [&ticked] {
    if (!ticked.HasBeenNotified()) ticked.Notify();
  });
  EXPECT_TRUE(ticked.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

TEST_F(IdleTickers, HoldNoChannelOnceTheyAreDestroyed) {
  int held = 0;
  for (int i = 0; i < kTickers; ++i) {
    const std::shared_ptr<grpc::Channel> channel = NewChannel();
    std::atomic<int> ticks{0};
    {
      const IdleTicker ticker(channel, [&ticks] { ++ticks; });
    }
    EXPECT_LE(ticks, 1);
    if (channel.use_count() > 1) ++held;
  }
  EXPECT_EQ(held, 0);
}

}  // namespace
}  // namespace dunlin::server
