// SPDX-License-Identifier: Apache-2.0
// What requests may take: as the config says where there is memory, lowered to what is there elsewhere.
#include "server/models/request_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

constexpr size_t kRequestMiB = size_t{1} << 20;

Config Read(int models, const std::vector<std::string>& overrides = {}) {
  std::string list;
  for (int i = 0; i < models; ++i) {
    list += std::string(i == 0 ? "" : ",") + R"({"name": "m)" + std::to_string(i) + R"(", "path": "/nowhere"})";
  }
  return *LoadConfigText(R"({"models": [)" + list + "]}", overrides);
}

TEST(RequestMemory, KeepsTheConfigsLimitsWhereThereIsMemory) {
  const Config config = Read(1);
  const auto memory = PlanRequestMemory(config, size_t{1} << 40);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const Limits& limits = memory->limits;
  EXPECT_EQ(limits.max_queued_bytes, config.limits.max_queued_bytes);
  EXPECT_EQ(limits.max_output_bytes, config.limits.max_output_bytes);
  EXPECT_EQ(limits.max_message_memory_bytes, config.limits.max_message_memory_bytes);
  EXPECT_EQ(limits.max_tokenising_bytes, config.limits.max_tokenising_bytes);
  EXPECT_EQ(limits.max_value_bytes, config.limits.max_value_bytes);
  EXPECT_EQ(memory->text_work.chat_workers, 4);
  EXPECT_EQ(memory->text_work.chat_worker_bytes, 128 * kRequestMiB);
  EXPECT_EQ(memory->text_work.grammar_worker_bytes, 64 * kRequestMiB);
}

TEST(RequestMemory, ASmallContainerGetsLowerLimitsWithinItsShare) {
  const Config config = Read(1);
  const auto memory = PlanRequestMemory(config, 460 * kRequestMiB);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_LT(memory->total(), 170 * kRequestMiB);
  EXPECT_EQ(memory->total() - memory->in_process(), memory->grammars + memory->chats);
  EXPECT_GE(memory->limits.max_queued_bytes, config.limits.max_http_body_bytes) << "the largest body fits";
  EXPECT_EQ(memory->text_work.chat_workers, 1);
  EXPECT_GE(memory->text_work.chat_worker_bytes, 16 * kRequestMiB);
  EXPECT_GE(memory->limits.max_value_bytes, static_cast<int64_t>(16 * kRequestMiB));
}

TEST(RequestMemory, GrowsWithTheLimitAndTheModels) {
  size_t before = 0;
  for (const size_t limit :
       {400 * kRequestMiB, 1000 * kRequestMiB, 2000 * kRequestMiB, 4000 * kRequestMiB, 16000 * kRequestMiB}) {
    const auto memory = PlanRequestMemory(Read(1), limit);
    ASSERT_TRUE(memory.ok());
    EXPECT_GE(memory->total(), before);
    EXPECT_LE(memory->total(), std::max(limit / 5, 170 * kRequestMiB));
    before = memory->total();
  }
  EXPECT_GT(PlanRequestMemory(Read(3), 400 * kRequestMiB)->total(),
            PlanRequestMemory(Read(1), 400 * kRequestMiB)->total());
}

TEST(RequestMemory, ASizeThatIsGivenIsKeptOrRefused) {
  const auto memory = PlanRequestMemory(Read(1, {"memory.request_bytes=536870912"}), size_t{1} << 40);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_LE(memory->total(), 512 * kRequestMiB);
  EXPECT_GE(memory->total(), 510 * kRequestMiB);
  const auto refused = PlanRequestMemory(Read(1, {"memory.request_bytes=67108864"}), size_t{1} << 40);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("memory.request_bytes is 67108864, too little for what requests need at least; minimum is "));
}

TEST(RequestMemory, LimitsThatAreSmallAnywayAreNotRaised) {
  const auto memory = PlanRequestMemory(Read(1, {"limits.max_queued_bytes=65536"}), 400 * kRequestMiB);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->limits.max_queued_bytes, 65536);
}

}  // namespace
}  // namespace dunlin::server
