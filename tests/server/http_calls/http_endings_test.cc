// SPDX-License-Identifier: Apache-2.0
// How generations over HTTP end when their clients go away, do not read, or wait for long; and many streams at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/serving/record/errors.h"
#include "tests/server/http_calls/http_front.h"

namespace dunlin::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool Idle(const HttpFront& front) {
  return Eventually([&] {
    const engine::EngineStats stats = front.model("tiny").engine->stats();
    return stats.idle && stats.pages_used == 0;
  });
}

bool TicketsBack(HttpFront& front) {
  return Eventually([&] { return front.core().admission_stats().requests == 0; });
}

TEST(HttpEndings, AClientThatGoesAwayFreesItsPages) {
  for (const bool stream : {true, false}) {
    HttpFront front;
    front.control().step_us = 1000;
    RawClient client = front.Connect();
    client.Send(HttpFront::Request("/generate", std::string(R"({"prompt": "abc", "max_tokens": 500, "stream": )") +
                                                    (stream ? "true}" : "false}")));
    if (stream) client.ReadUntil("data: ");
    ASSERT_TRUE(Eventually([&] { return front.model("tiny").engine->stats().pages_used > 0; }));
    client.Close();
    EXPECT_TRUE(Idle(front));
    EXPECT_TRUE(TicketsBack(front));
    const RequestRecord record = front.observer().WaitFor(1).at(0);
    EXPECT_EQ(record.status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(record.finish_reason, "cancelled");
    EXPECT_LT(front.control().tokens.load(), 400) << "stream " << stream;
  }
}

TEST(HttpEndings, AClientThatGoesAwayFreesThePagesOfAllItsPrompts) {
  HttpFront front;
  front.control().step_us = 1000;
  RawClient client = front.Connect();
  client.Send(HttpFront::Request("/generate",
                                 R"({"prompt": "abc", "further": ["def", "ghi"], "max_tokens": 450, "stream": true})"));
  client.ReadUntil("data: ");
  // A prompt that has not begun would end without a reason of its own.
  ASSERT_TRUE(Eventually([&] { return front.model("tiny").engine->stats().running == 3; }));
  client.Close();
  EXPECT_TRUE(Idle(front));
  EXPECT_TRUE(TicketsBack(front));
  for (const RequestRecord& record : front.observer().WaitFor(3)) EXPECT_EQ(record.finish_reason, "cancelled");
}

// The cancel waits in the engine's mailbox while a step runs; the next step begins without the sequence.
TEST(HttpEndings, AClientThatGoesAwayCostsOneStepAtMost) {
  HttpFront front;
  RawClient client = front.Connect();
  front.control().step_us = 100'000;
  client.Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 500, "stream": true})"));
  client.ReadUntil("data: ");
  client.Close();
  const int64_t tokens = front.control().tokens;
  EXPECT_TRUE(Idle(front));
  EXPECT_LE(front.control().tokens.load(), tokens + 2) << "the step that ran, and one that began before the close came";
}

TEST(HttpEndings, AStreamThatNobodyReadsEndsAndFreesItsPages) {
  HttpFrontOptions options;
  options.limits.max_unsent_tokens = 64;
  options.limits.slow_reader_timeout_ms = 500;
  HttpFront front(options);
  front.control().step_us = 1000;
  RawClient client = front.Connect(4096);
  client.Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 500, "stream": true, "pad": 16000})"));
  client.ReadUntil("data: ");
  EXPECT_TRUE(Idle(front)) << "pages are freed while the client still does not read";
  const RequestRecord record = front.observer().WaitFor(1).at(0);
  EXPECT_EQ(ReasonName(record.status), "SLOW_READER");
  EXPECT_EQ(record.finish_reason, "slow_reader");
  EXPECT_TRUE(TicketsBack(front)) << "the call itself is cut";
  EXPECT_THAT(client.ReadAll(), testing::Not(HasSubstr("[DONE]")));
}

TEST(HttpEndings, ADocumentThatNobodyReadsGivesItsTicketBack) {
  HttpFrontOptions options;
  options.limits.slow_reader_timeout_ms = 300;
  options.limits.max_http_body_bytes = 8 << 20;
  HttpFront front(options);
  RawClient client = front.Connect(4096);
  client.Send(HttpFront::Request("/text", std::string(4 << 20, 'a')));
  EXPECT_TRUE(client.HasInput(20000));
  EXPECT_EQ(front.core().admission_stats().requests, 1);
  EXPECT_TRUE(TicketsBack(front)) << "while the client keeps its connection open";
}

// A numerical error after some tokens: the stream has begun, so that its status is an event.
TEST(HttpEndings, AnErrorInAStreamIsItsLastEvent) {
  HttpFront front;
  front.control().step_us = 20'000;
  RawClient client = front.Connect();
  client.Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 500, "stream": true})"));
  client.ReadUntil("data: ");
  front.control().fail = true;
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), AllOf(HasSubstr("data: error DEVICE_FAILED\n\n"), EndsWith("0\r\n\r\n")));
}

TEST(HttpEndings, AStreamThatWaitsSendsComments) {
  HttpFrontOptions options;
  options.timeouts.stream_idle = std::chrono::milliseconds(100);
  options.engine.max_sequences = 1;
  HttpFront front(options);
  RawClient running = front.Connect();
  front.control().step_us = 5'000;
  running.Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 400, "stream": true})"));
  running.ReadUntil("data: ");  // it has the only place
  RawClient waiting = front.Connect();
  waiting.Send(HttpFront::Request("/generate", R"({"prompt": "def", "stream": true})"));
  EXPECT_THAT(waiting.ReadHeader(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(waiting.ReadUntil("\n\n\r\n"), "e\r\n: keep-alive\n\n\r\n");
  EXPECT_EQ(waiting.ReadUntil("\n\n\r\n"), "e\r\n: keep-alive\n\n\r\n");
  running.Close();
  EXPECT_THAT(waiting.ReadUntil("data: [DONE]\n\n"), EndsWith("data: [DONE]\n\n"));
}

TEST(HttpEndings, TwoThousandStreamsAreHeldAtOnce) {
  constexpr int kStreams = 2000;
  constexpr rlim_t kDescriptors = 2 * kStreams + 200;  // both ends are this process
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit enough = before;
  enough.rlim_cur = std::max(before.rlim_cur, kDescriptors);
  enough.rlim_max = std::max(before.rlim_max, kDescriptors);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &enough), 0) << "needs " << kDescriptors << " descriptors";
  {
    HttpFrontOptions options;
    options.connections = {kStreams, kStreams};
    options.limits.max_concurrent_requests = kStreams;
    options.engine.max_queued_requests = kStreams;
    HttpFront front(options);
    front.control().held = true;
    std::vector<RawClient> clients;
    clients.reserve(kStreams);
    for (int i = 0; i < kStreams; ++i) {
      clients.push_back(front.Connect());
      clients.back().Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 2, "stream": true})"));
    }
    EXPECT_TRUE(Eventually([&] { return front.core().admission_stats().requests == kStreams; }));
    front.control().held = false;
    int num_done = 0;
    for (RawClient& client : clients) {
      const std::string answer = client.ReadUntil("data: [DONE]\n\n");  // a short stream may come whole, without chunks
      if (answer.find("data: [DONE]\n\n") != std::string::npos) ++num_done;
    }
    EXPECT_EQ(num_done, kStreams);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace dunlin::server
