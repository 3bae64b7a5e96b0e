// SPDX-License-Identifier: Apache-2.0
#include "server/observe/logging/logging.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kMillisecond = 1'000'000;

// Captures the lines of the default logger during its lifetime.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_));
    logger->set_pattern("%v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::shared_ptr<spdlog::logger> before_;
};

RequestRecord RefusedAtTheDoor(engine::TimeNs finished) {
  RequestRecord record;
  record.status = Overloaded(Reason::kTooManyRequests, "2 requests are in flight; limit is 2", "limits", 1000);
  record.refusal_reason = "TOO_MANY_REQUESTS";
  record.finished = finished;
  return record;
}

TEST(RequestLog, RefusalsBeforeReadingShareOneLinePerSecond) {
  const CapturedLog captured;
  RequestLog log;
  for (int i = 0; i <= 1000; ++i) log.OnFinished(RefusedAtTheDoor((5000 + i) * kMillisecond));
  EXPECT_EQ(captured.text(),
            "1 requests refused before they began, the last with TOO_MANY_REQUESTS\n"
            "1000 requests refused before they began, the last with TOO_MANY_REQUESTS\n");
}

TEST(RequestLog, RefusalsForDeadlinesShareThatLineThoughTheyHaveAnId) {
  const CapturedLog captured;
  RequestLog log;
  RequestRecord record;
  record.request_id = "a";
  record.status = NotBegunForDeadline(1000);
  record.refusal_reason = "WOULD_MISS_DEADLINE";
  for (int i = 0; i < 1000; ++i) {
    record.finished = (5000 + i) * kMillisecond;
    log.OnFinished(record);
  }
  EXPECT_EQ(captured.text(), "1 requests refused before they began, the last with WOULD_MISS_DEADLINE\n");
}

TEST(RequestLog, WhatHasNoEffectIsNamedOnce) {
  const CapturedLog captured;
  RequestLog log;
  IgnoredNames names;
  names.Add("mood\n");
  for (int i = 0; i < 3; ++i) log.OnIgnored("/v1/messages", names);
  log.OnIgnored("/v1/responses", names);
  EXPECT_EQ(captured.text(),
            "/v1/messages: \"mood?\" of requests has no effect here (protocols.openai.strict)\n"
            "/v1/responses: \"mood?\" of requests has no effect here (protocols.openai.strict)\n");
}

TEST(RequestLog, NamesThatClientsMakeUpAreBounded) {
  const CapturedLog captured;
  RequestLog log;
  for (int i = 0; i < 10'000; ++i) {
    IgnoredNames names;
    names.Add("x" + std::to_string(i));
    log.OnIgnored("/v1/messages", names);
  }
  const std::string text = captured.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::ptrdiff_t{RequestLog::kMaxIgnoredNames});
}

TEST(RequestLog, EveryOtherRequestHasItsOwnLine) {
  const CapturedLog captured;
  RequestLog log;
  RequestRecord queue_full = RefusedAtTheDoor(kMillisecond);
  queue_full.request_id = "a";
  RequestRecord malformed = RefusedAtTheDoor(kMillisecond);
  malformed.status = MakeError(Reason::kMalformedMessage, "the message is not one");
  for (const RequestRecord& record : {queue_full, queue_full, malformed, malformed}) log.OnFinished(record);
  const std::string text = captured.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

// Every field has another value, so that two that are swapped give another line.
TEST(RequestLog, TheLineShowsEveryField) {
  const CapturedLog captured;
  RequestLog log;
  RequestRecord record;
  record.request_id = "mine";
  record.model = "m";
  record.profile = engine::ExecutionProfile{};
  record.profile->attention_backend = engine::AttentionBackend::kMath;
  record.profile->precision = engine::Precision::kFp16;
  record.status = absl::DeadlineExceededError("too late");
  record.finish_reason = "deadline";
  record.prompt_tokens = 31;
  record.cached_tokens = 17;
  record.completion_tokens = 58;
  record.preemptions = 43;
  record.arrival = 1000 * kMillisecond;
  record.first_scheduled = 1003 * kMillisecond;
  record.first_token = 1010 * kMillisecond;
  record.finished = 1023 * kMillisecond;
  log.OnFinished(record);
  EXPECT_EQ(
      captured.text(),
      "request id=\"mine\" model=\"m\" profile=cpu/math/fp16 prompt_tokens=31 cached_tokens=17 completion_tokens=58 "
      "queue_ms=3.000 ttft_ms=10.000 total_ms=23.000 preemptions=43 status=DEADLINE_EXCEEDED finish=deadline "
      "message=\"too late\"\n");
}

TEST(RequestLog, NoFieldOfAClientForgesAnother) {
  const CapturedLog captured;
  RequestLog log;
  RequestRecord record;
  record.request_id = "a status=OK finish=stop";
  record.model = "b\" status=OK \u202e\u009b2J";
  record.status = UnknownModel("c\u2028\u2066\" status=OK");
  log.OnFinished(record);
  AuditLog().OnDenied({"key", "GET /metrics", "192.0.2.1 key=other", "a\nb\u0085"});
  const std::string text = captured.text();
  EXPECT_NE(text.find(R"(request id="a status=OK finish=stop" model="b\" status=OK \u202e\u009b2J" profile=-)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(peer="192.0.2.1 key=other" reason="a\x0ab\u0085")"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << text;
}

TEST(RequestLog, WhatAChatTemplateRaisesIsNotLogged) {
  const CapturedLog captured;
  RequestLog log;
  RequestRecord record = RefusedAtTheDoor(kMillisecond);
  record.request_id = "a";
  record.status = MakeError(Reason::kMalformedMessage, "harmless");
  log.OnFinished(record);
  record.status = MakeError(Reason::kChatRefused, "chat is refused: secret");
  log.OnFinished(record);
  EXPECT_NE(captured.text().find("harmless"), std::string::npos);
  EXPECT_NE(captured.text().find("status=INVALID_ARGUMENT"), std::string::npos);
  EXPECT_NE(captured.text().find("reason=CHAT_REFUSED"), std::string::npos);
  EXPECT_EQ(captured.text().find("secret"), std::string::npos);
}

TEST(CutLog, AFloodOfConnectionsWritesFewLines) {
  const CapturedLog captured;
  CutLog log;
  for (int i = 0; i < 1000; ++i) log.OnCut("192.0.2.1", "it opened too many calls");
  const std::string text = captured.text();
  EXPECT_EQ(text.find("gRPC connection from 192.0.2.1 cut: it opened too many calls\n"), 0U);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 2 * (CutLog::kMaxLines + 1)) << "of two seconds at most";
}

}  // namespace
}  // namespace dunlin::server
