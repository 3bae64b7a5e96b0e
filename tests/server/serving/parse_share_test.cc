// SPDX-License-Identifier: Apache-2.0
// Bodies that become large while they are parsed take turns in the memory for that; small ones pass them.
#include "server/serving/core/parse_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "server/serving/record/errors.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

Limits SmallMemory() {
  Limits limits;
  limits.max_value_bytes = int64_t{8} << 20;
  return limits;
}

std::string Numbers(int count) {
  std::string body = "[0";
  for (int i = 1; i < count; ++i) body += ",0";
  return body + "]";
}

class ParseShareTest : public testing::Test {
 protected:
  ParseShareTest() : models_({}), core_(SmallMemory(), models_.repository(), nullptr, {}) {}

  TestModels models_;
  ServingCore core_;
};

TEST_F(ParseShareTest, TakesWhatTheValuesWillTakeUntilItEnds) {
  {
    ParseShare share;
    ASSERT_TRUE(share.TakeForJson(&core_, Numbers(100000)).ok());
    EXPECT_GT(core_.value_budget()->taken(), 100000 * 16);
    ParseShare small;
    EXPECT_TRUE(small.TakeForJson(&core_, Numbers(1000)).ok());
  }
  EXPECT_EQ(core_.value_budget()->taken(), 0);
}

TEST_F(ParseShareTest, RefusesWhatIsMoreThanThereIsForAll) {
  ParseShare share;
  const absl::Status refused = share.TakeForJson(&core_, Numbers(1000000));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("limit is 8 MiB of memory for them"));
  EXPECT_EQ(core_.value_budget()->taken(), 0);
}

TEST_F(ParseShareTest, WaitsForOthersAndIsRefusedInTheEnd) {
  std::atomic<bool> parsed = false;
  std::thread next;
  {
    ParseShare all;
    ASSERT_TRUE(all.TakeForMessage(&core_, size_t{1} << 20).ok());
    const auto start = std::chrono::steady_clock::now();
    ParseShare in_vain;
    const absl::Status refused = in_vain.TakeForJson(&core_, Numbers(100000));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1900));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(DetailsOf(refused).retry_after_ms.has_value());
    ParseShare small;
    EXPECT_TRUE(small.TakeForJson(&core_, Numbers(1000)).ok()) << "it does not wait";
    next = std::thread([&] {
      ParseShare share;
      parsed = share.TakeForJson(&core_, Numbers(100000)).ok();
    });
  }
  next.join();
  EXPECT_TRUE(parsed);
}

}  // namespace
}  // namespace dunlin::server
