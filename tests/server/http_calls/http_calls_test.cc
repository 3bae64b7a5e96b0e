// SPDX-License-Identifier: Apache-2.0
// Calls over HTTP to the serving core: documents, streams, statuses and headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http_calls/http_status.h"
#include "server/serving/record/errors.h"
#include "tests/server/http_calls/http_front.h"

namespace dunlin::server {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpCalls, GenerateADocument) {
  HttpFront front;
  const std::string answer = front.Call("/generate", R"({"prompt": "abc", "max_tokens": 4})", "x-request-id: mine\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("x-request-id: mine\r\n"),
                            HasSubstr("Content-Type: application/json\r\n"), EndsWith("\r\n\r\nabca")));
  const auto records = front.observer().WaitFor(1);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].request_id, "mine");
  EXPECT_EQ(records[0].completion_tokens, 4);
}

TEST(HttpCalls, GenerateAStream) {
  HttpFront front;
  const std::string answer = front.Call("/generate", R"({"prompt": "abc", "max_tokens": 4, "stream": true})");
  EXPECT_THAT(answer,
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: text/event-stream; charset=utf-8\r\n"),
                    HasSubstr("Cache-Control: no-cache\r\n"), HasSubstr("X-Accel-Buffering: no\r\n"),
                    ContainsRegex("x-request-id: [0-9a-f-]+\r\n"), HasSubstr("data: [DONE]\n\n")));
}

// Documents, streams, documents of the text pool, and errors.
TEST(HttpCalls, NameWhatHadNoEffect) {
  HttpFront front;
  const auto names_it = HasSubstr("x-dunlin-ignored: odd\r\n");
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "odd": 1})"), AllOf(StartsWith("HTTP/1.1 200 "), names_it));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "further": ["x"], "odd": 1, "stream": true})"),
              AllOf(StartsWith("HTTP/1.1 200 "), names_it, HasSubstr("data: [DONE]\n\n")));
  EXPECT_THAT(front.Call("/text", "odd words"), AllOf(StartsWith("HTTP/1.1 200 "), names_it, EndsWith("ODD WORDS")));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "odd": 1, "model": "none"})"),
              AllOf(StartsWith("HTTP/1.1 404 "), names_it));
  EXPECT_THAT(front.observer().ignored(),
              testing::ElementsAre("/generate: odd", "/generate: odd", "/text: odd", "/generate: odd"));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc"})"), Not(HasSubstr("x-dunlin-ignored")));
  EXPECT_EQ(front.observer().ignored().size(), 4U);
}

TEST(HttpCalls, LowerMaxTokensToWhatTheContextLeavesAndSayIt) {
  HttpFront front;
  const std::string header = absl::StrCat("x-dunlin-max-tokens: ", kTinyContext - 3, "\r\n");
  for (const char* stream : {"false", "true"}) {
    const std::string body = absl::StrCat(R"({"prompt": "abc", "max_tokens": 32000, "stream": )", stream, "}");
    EXPECT_THAT(front.Call("/generate", body), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr(header)));
  }
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "max_tokens": 4})"), Not(HasSubstr("x-dunlin-max-tokens")));
  const auto records = front.observer().WaitFor(3);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].completion_tokens, kTinyContext - 3);
  EXPECT_EQ(records[0].max_tokens, kTinyContext - 3);
}

// On one connection, each of its calls after the other, small and large bodies alike.
TEST(HttpCalls, FollowEachOtherOnOneConnection) {
  HttpFront front;
  RawClient client = front.Connect();
  for (const size_t size : {3U, 400U, 100'000U}) {
    const std::string pad(size, ' ');
    client.Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 2)" + pad + "}"));
    EXPECT_THAT(client.ReadReply(), EndsWith("\r\n\r\nab")) << size;
  }
}

// "abc", "abcd" and "x" continue as the scripted runtime does, each by itself.
TEST(HttpCalls, WithSeveralPromptsHaveOneResponse) {
  HttpFront front;
  std::string apart;
  for (const char* prompt : {"abc", "abcd", "x"}) {
    const std::string answer = front.Call("/generate", std::string(R"({"prompt": ")") + prompt + R"("})");
    apart += (apart.empty() ? "" : "|") + answer.substr(answer.find("\r\n\r\n") + 4);
  }
  front.observer().WaitFor(3);  // a call's records may come after its reply
  const std::string prompts = R"("prompt": "abc", "further": ["abcd", "x"])";
  EXPECT_THAT(front.Call("/generate", "{" + prompts + "}", "x-request-id: mine\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("x-request-id: mine\r\n"), EndsWith("\r\n\r\n" + apart)));
  front.observer().WaitFor(6);
  const std::string stream = front.Call("/generate", "{" + prompts + R"(, "stream": true})");
  EXPECT_THAT(stream, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("data: [DONE]\n\n")));
  const auto records = front.observer().WaitFor(9);
  ASSERT_EQ(records.size(), 9U);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(records[i].request_id, "mine");
  EXPECT_EQ(records[6].request_id, records[8].request_id) << "one id, drawn for all";
  EXPECT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 0; }));
}

TEST(HttpCalls, WithSeveralPromptsFailTogether) {
  HttpFrontOptions options;
  options.limits.max_concurrent_requests = 3;
  HttpFront front(options);
  const std::string long_prompt(600, 'a');  // more than the context
  for (const char* stream : {"false", "true"}) {
    EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "max_tokens": 400, "further": ["x", ")" + long_prompt +
                                            R"("], "stream": )" + stream + "}"),
                HasSubstr("error INVALID_FIELD"));
    EXPECT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 0; }));
  }
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "a", "further": ["b", "c", "d"]})"),
              AllOf(StartsWith("HTTP/1.1 400 "), EndsWith("error INVALID_FIELD")))
      << "more prompts than requests at a time";
  front.control().held = true;
  RawClient first = front.Connect();
  first.Send(HttpFront::Request("/generate", R"({"prompt": "abc"})"));
  ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 1; }));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "a", "further": ["b", "c"]})"),
              AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("Retry-After: "), EndsWith("error TOO_MANY_REQUESTS")));
  front.control().held = false;
  EXPECT_THAT(first.ReadReply(), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpCalls, EmbedAndWorkOnTheTextPool) {
  HttpFront front;
  EXPECT_THAT(front.Call("/embed", "a text"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n1 vectors")));
  EXPECT_THAT(front.Call("/text", "abc", "x-request-id: t\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("x-request-id: t\r\n"), EndsWith("\r\n\r\nABC")));
  EXPECT_THAT(front.Call("/text", ""), AllOf(StartsWith("HTTP/1.1 400 "), EndsWith("error MALFORMED_MESSAGE")));
}

TEST(HttpCalls, BelongToTheTraceThatTheHeaderNames) {
  const std::string headers =
      "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
      "tracestate: a=b\r\nTraceState: c=d\r\n";
  HttpFrontOptions options;
  options.serving.traces = true;
  HttpFront front(options);
  front.Call("/generate", R"({"prompt": "abc", "max_tokens": 1})", headers);
  front.observer().WaitFor(1);
  front.Call("/embed", "a text", headers);
  for (const RequestRecord& record : front.observer().WaitFor(2)) {
    ASSERT_TRUE(record.trace.has_value() && record.trace->parent.has_value());
    EXPECT_EQ(record.trace->parent->trace_id.front(), 0x0a);
    EXPECT_EQ(record.trace->parent->span_id.back(), 0x31);
    EXPECT_TRUE(record.trace->parent->sampled);
    EXPECT_EQ(record.trace->state, "a=b,c=d");
  }
  front.Call("/embed", "a text", headers + headers);
  EXPECT_FALSE(front.observer().WaitFor(3).at(2).trace->parent.has_value()) << "given twice";
  HttpFront without;
  without.Call("/embed", "a text", headers);
  EXPECT_FALSE(without.observer().WaitFor(1).at(0).trace.has_value());
}

TEST(HttpCalls, FailWithTheirStatus) {
  HttpFront front;
  EXPECT_THAT(front.Call("/generate", "not json"),
              AllOf(StartsWith("HTTP/1.1 400 "), EndsWith("\r\n\r\nerror MALFORMED_MESSAGE")));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "model": "other"})", "x-request-id: mine\r\n"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("x-request-id: mine\r\n"), EndsWith("error UNKNOWN_MODEL")));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc"})", "x-request-id: a\tb\r\n"),
              AllOf(StartsWith("HTTP/1.1 400 "), Not(HasSubstr("a\tb")), EndsWith("error INVALID_FIELD")));
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "stream": true, "max_tokens": -1})"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("application/json"), EndsWith("error INVALID_FIELD")))
      << "before the stream begins, an error is a status";
  front.control().fail = true;
  EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc"})"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("error DEVICE_FAILED")));
}

TEST(HttpCalls, AreRefusedWhileTheServerIsFullOrDrains) {
  HttpFrontOptions options;
  options.limits.max_concurrent_requests = 1;
  options.limits.retry_after_ms = 1500;
  HttpFront front(options);
  front.control().held = true;
  RawClient first = front.Connect();
  first.Send(HttpFront::Request("/generate", R"({"prompt": "abc"})"));
  ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 1; }));
  for (const char* path : {"/generate", "/embed", "/text"}) {
    EXPECT_THAT(
        front.Call(path, "x", "x-request-id: mine\r\n"),
        AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("Retry-After: 2\r\n"), HasSubstr("retry-after-ms: 1500\r\n"),
              HasSubstr("x-request-id: mine\r\n"), EndsWith("error TOO_MANY_REQUESTS")))
        << path;
  }
  const auto refused = front.observer().WaitFor(2);
  ASSERT_EQ(refused.size(), 2U) << "text calls have no record";
  EXPECT_EQ(refused[0].refusal_reason, "TOO_MANY_REQUESTS");
  front.control().held = false;
  EXPECT_THAT(first.ReadReply(), StartsWith("HTTP/1.1 200 "));
  front.core().StartDraining(AdmissionRefusal::kDraining);
  EXPECT_THAT(front.Call("/generate", "{}"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("error DRAINING")));
}

TEST(HttpCalls, AreChargedToAdmissionAsTheirBodyComes) {
  HttpFrontOptions options;
  options.limits.max_queued_bytes = 10'000;
  options.limits.max_http_body_bytes = 20'000;
  options.timeouts.read = std::chrono::milliseconds(500);
  HttpFront front(options);
  const auto queued = [&front] { return front.core().admission_stats().queued_bytes; };
  RawClient half = front.Connect();
  half.Send("POST /generate HTTP/1.1\r\nContent-Length: 9500\r\n\r\n" + std::string(9000, ' '));
  ASSERT_TRUE(Eventually([&] { return queued() == 9000; }));
  EXPECT_EQ(front.core().admission_stats().requests, 0) << "no place before it is there";
  EXPECT_THAT(front.Call("/generate", std::string(2000, ' ')),
              AllOf(StartsWith("HTTP/1.1 429 "), EndsWith("error TOO_MANY_QUEUED_BYTES")));
  RawClient chunked = front.Connect();
  chunked.Send("POST /generate HTTP/1.1\r\nTransfer-Encoding: chunked\r\nx-request-id: mine\r\n\r\n7d0\r\n" +
               std::string(2000, ' '));
  EXPECT_THAT(chunked.ReadAll(), AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("x-request-id: mine\r\n"),
                                       EndsWith("error TOO_MANY_QUEUED_BYTES")));
  EXPECT_EQ(queued(), 9000) << "what was refused holds nothing";
  EXPECT_THAT(front.Call("/generate", std::string(20'001, ' ')),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("the body has 20001 bytes; limit is 20000 "
                                                           "(limits.max_http_body_bytes)")));
  EXPECT_THAT(half.ReadAll(), StartsWith("HTTP/1.1 408 ")) << "the rest of the body did not come";
  EXPECT_TRUE(Eventually([&] { return front.core().admission_stats().receiving == 0; }));
  EXPECT_EQ(queued(), 0);
}

TEST(HttpCalls, WhoseBodiesDoNotComeKeepNobodyOut) {
  HttpFrontOptions options;
  options.limits.max_concurrent_requests = 2;
  options.limits.max_queued_bytes = 10'000;
  HttpFront front(options);
  std::vector<RawClient> held;
  for (int i = 0; i < 16; ++i) {
    held.push_back(front.Connect());
    held.back().Send("POST /generate HTTP/1.1\r\nContent-Length: 9000\r\n\r\n");
  }
  ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().receiving == 16; }));
  EXPECT_EQ(front.core().admission_stats().queued_bytes, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(front.Call("/generate", R"({"prompt": "abc", "max_tokens": 2})"), StartsWith("HTTP/1.1 200 "));
    // A call gives its ticket back after its reply.
    ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 0; }));
  }
}

TEST(HttpCalls, ThatFindNoPlaceOnceTheirBodyIsThereAreRefused) {
  HttpFrontOptions options;
  options.limits.max_concurrent_requests = 1;
  HttpFront front(options);
  for (const char* path : {"/generate", "/embed", "/text"}) {
    RawClient late = front.Connect();
    late.Send(absl::StrCat("POST ", path, " HTTP/1.1\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"));
    ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().receiving == 1; }));
    front.control().held = true;
    RawClient first = front.Connect();
    first.Send(HttpFront::Request("/generate", R"({"prompt": "abc", "max_tokens": 2})"));
    ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 1; }));
    late.Send("abc");
    EXPECT_THAT(late.ReadAll(), AllOf(StartsWith("HTTP/1.1 429 "), EndsWith("error TOO_MANY_REQUESTS"))) << path;
    front.control().held = false;
    EXPECT_THAT(first.ReadReply(), StartsWith("HTTP/1.1 200 "));
    ASSERT_TRUE(Eventually([&] { return front.core().admission_stats().requests == 0; }));
  }
}

TEST(HttpCalls, GetStatusesByTheKindOfTheirError) {
  struct Row {
    Reason reason;
    int status;
  };
  for (const Row& row :
       {Row{Reason::kInvalidField, 400}, Row{Reason::kUnknownModel, 404}, Row{Reason::kNoTokenizer, 400},
        Row{Reason::kQueueFull, 429}, Row{Reason::kLoading, 503}, Row{Reason::kDeadline, 504},
        Row{Reason::kCancelled, 499}, Row{Reason::kNumerical, 500}, Row{Reason::kInternal, 500}}) {
    EXPECT_EQ(HttpStatusOf(MakeError(row.reason, "")), row.status) << Traits(row.reason).name;
  }
  EXPECT_EQ(HttpStatusOf(absl::OkStatus()), 200);
}

}  // namespace
}  // namespace dunlin::server
