// SPDX-License-Identifier: Apache-2.0
// Calls that are opened and not seen through, by connection, address and port, in virtual time.
#include "server/access/call_budgets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kMillisecond = 1'000'000;
constexpr engine::TimeNs kBudgetSecond = 1000 * kMillisecond;
constexpr engine::TimeNs kStart = 5'000'000 * kBudgetSecond;
constexpr CallBudgetLimits kLimits = {.max_streams = 100, .abandoned_calls_per_second = 200};
constexpr int kMaxOwed = 300;

using Connection = std::unique_ptr<CallBudgets::Connection>;

class CallBudgetsTest : public ::testing::Test {
 protected:
  Connection Connect(const std::string& address = "192.0.2.1") { return budgets_.Add(address, now_); }
  // Whether the connection is within its budget afterwards.
  bool OpenAndReset(const Connection& connection) {
    return budgets_.TryOpen(0, connection.get(), now_) && budgets_.OnEnded(true, 0, connection.get(), now_);
  }
  bool OpenAndAnswer(const Connection& connection) {
    return budgets_.TryOpen(0, connection.get(), now_) && budgets_.OnEnded(false, 0, connection.get(), now_);
  }
  // As many a second as given, for so long; how many until the connection is over its budget.
  int ResetsUntilCut(const Connection& connection, int per_second, int seconds) {
    for (int i = 0; i < per_second * seconds; ++i) {
      if (!OpenAndReset(connection)) return i;
      now_ += kBudgetSecond / per_second;
    }
    return -1;
  }

  CallBudgets budgets_{kLimits};
  engine::TimeNs now_ = kStart;
};

TEST_F(CallBudgetsTest, ManyResetsAtOnceAreOverTheBudget) {
  const Connection connection = Connect();
  for (int i = 0; i < kMaxOwed; ++i) EXPECT_TRUE(OpenAndReset(connection)) << i;
  EXPECT_FALSE(OpenAndReset(connection));
  now_ += 60 * kBudgetSecond;
  EXPECT_FALSE(OpenAndAnswer(connection)) << "for ever";
}

TEST_F(CallBudgetsTest, TenThousandASecondAreOverWithinATenthOfASecond) {
  EXPECT_LT(ResetsUntilCut(Connect(), 10000, 1), 350);
}

TEST_F(CallBudgetsTest, ARouterMayAbandonAHundredASecondForAnHour) {
  EXPECT_EQ(ResetsUntilCut(Connect(), 100, 3600), -1);
}

TEST_F(CallBudgetsTest, AllOpenStreamsMayBeAbandonedAtOnceAndAgain) {
  const Connection connection = Connect();
  for (int second = 0; second < 100; ++second, now_ += kBudgetSecond) {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(budgets_.TryOpen(static_cast<size_t>(i), connection.get(), now_));
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(budgets_.OnEnded(true, 0, connection.get(), now_));
  }
}

TEST_F(CallBudgetsTest, AnsweredCallsCostNothing) {
  const Connection connection = Connect();
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(OpenAndAnswer(connection)) << i;
}

// Clients with deadlines before a server that is overloaded.
TEST_F(CallBudgetsTest, CallsThatHadTheirStreamForHalfASecondMayAllBeAbandoned) {
  std::vector<Connection> connections;
  for (int i = 0; i < 50; ++i) connections.push_back(Connect());
  for (int round = 0; round < 20; ++round) {
    for (const Connection& connection : connections) {
      for (size_t i = 0; i < 100; ++i) ASSERT_TRUE(budgets_.TryOpen(i, connection.get(), now_));
    }
    now_ += kBudgetSecond / 2;
    for (const Connection& connection : connections) {
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(budgets_.OnEnded(true, kBudgetSecond / 2, connection.get(), now_));
    }
  }
}

TEST_F(CallBudgetsTest, CallsThatNoServiceSeesCostAsMuch) {
  const Connection connection = Connect();
  int opened = 0;
  while (budgets_.TryOpen(0, connection.get(), now_)) ++opened;
  EXPECT_EQ(opened, kMaxOwed);
}

// A client that acknowledges no SETTINGS is not held to the number of streams.
TEST_F(CallBudgetsTest, OpenStreamsAreBoundedHoweverSlowlyTheyCome) {
  const Connection connection = Connect();
  size_t open = 0;
  for (; open < 10000 && budgets_.TryOpen(open, connection.get(), now_); ++open) now_ += kBudgetSecond / 50;
  EXPECT_EQ(open, 200U);
}

TEST_F(CallBudgetsTest, ManyConnectionsOfAnAddressBelowTheirOwnLimitsAreCut) {
  std::vector<Connection> connections;
  for (int i = 0; i < 16; ++i) connections.push_back(Connect());
  int num_cut = 0;
  for (int tick = 0; tick < 1000; ++tick, now_ += 10 * kMillisecond) {  // 100 a second each
    num_cut = 0;
    for (const Connection& connection : connections) num_cut += OpenAndReset(connection) ? 0 : 1;
  }
  EXPECT_EQ(num_cut, 16);
}

TEST_F(CallBudgetsTest, AnAddressInDebtLeavesThoseWhoAbandonFewAlone) {
  const Connection neighbour = Connect();
  const Connection elsewhere = Connect("192.0.2.2");
  for (int attack = 0; attack < 100; ++attack, now_ += 100 * kMillisecond) {
    ResetsUntilCut(Connect(), 100000, 1);
    ASSERT_TRUE(OpenAndReset(neighbour)) << attack;  // ten a second
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(OpenAndReset(elsewhere)) << attack;
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(OpenAndAnswer(neighbour));
  }
}

TEST_F(CallBudgetsTest, AClientThatConnectsAgainAndAgainMayAbandonFewEachTime) {
  for (int i = 0; i < 20; ++i) ResetsUntilCut(Connect(), 100000, 1);
  EXPECT_LE(ResetsUntilCut(Connect(), 100000, 1), 130);
  const Connection good = Connect();
  for (size_t i = 0; i < 100; ++i) EXPECT_TRUE(budgets_.TryOpen(i, good.get(), now_)) << "as many as HTTP/2 allows";
  now_ += 20 * kBudgetSecond;
  EXPECT_GT(ResetsUntilCut(Connect(), 100000, 1), 250) << "debts are forgotten";
}

TEST_F(CallBudgetsTest, ManyAddressesTogetherAreHeldToThePortsLimit) {
  for (int i = 0; i < 1000; ++i) {
    const Connection connection = Connect("198.51.100." + std::to_string(i));
    for (int call = 0; call < 30; ++call) OpenAndReset(connection);
  }
  EXPECT_LE(ResetsUntilCut(Connect("203.0.113.1"), 100000, 1), 130);
}

}  // namespace
}  // namespace dunlin::server
