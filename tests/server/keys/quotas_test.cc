// SPDX-License-Identifier: Apache-2.0
// Quotas of keys over gRPC and HTTP: what is refused and how, what is told, and what is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dunlin/v1/embedding.grpc.pb.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "tests/server/keys/keyed_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string Limited(const std::string& name, const std::string& limits) {
  return KeyEntry(name, R"("permissions": ["infer"], "models": ["*"], )" + limits);
}

// A completion of `max_tokens` at most, whose output is the prompt again; `more`: further members.
std::string Completion(int max_tokens, const std::string& more = "") {
  return absl::StrCat(R"({"model":"tiny","prompt":"abc","max_tokens":)", max_tokens, more, "}");
}

// The number in a header of a reply; -1 without it.
int64_t NumberIn(const std::string& reply, const std::string& header) {
  const size_t at = reply.find(header + ": ");
  return at == std::string::npos ? -1 : std::atoll(reply.c_str() + at + header.size() + 2);
}

class QuotasTest : public testing::Test {
 protected:
  std::string Complete(const std::string& name, const std::string& body) {
    return server_.Http("POST", "/v1/completions", KeyedServer::HeaderAs(name), body);
  }
  Reply Generate(const std::string& name, int max_tokens = 2) {
    return server_.edge().Generate(TextRequest("abc", max_tokens), KeyedServer::As(name));
  }

  KeyedServer server_{{Limited("two", R"("requests_per_minute": 2)"), Limited("tokens", R"("tokens_per_minute": 100)"),
                       Limited("one-at-once", R"("max_concurrent": 1)"), Limited("none", R"("requests_per_minute": 0)"),
                       FullKeyEntry("all")}};
};

TEST_F(QuotasTest, RequestsOfAMinute) {
  EXPECT_TRUE(Generate("two").status.ok());
  EXPECT_TRUE(Generate("two").status.ok());
  const Reply reply = Generate("two");
  EXPECT_EQ(reply.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reply.status.error_message(),
            "key \"two\" has used up its requests a minute; limit is 2 (requests_per_minute)");
  EXPECT_EQ(reply.reason(), "REQUEST_QUOTA");
  EXPECT_EQ(reply.Get<google::rpc::QuotaFailure>().violations(0).subject(), "keys[two].requests_per_minute");
  const auto wait = reply.Get<google::rpc::RetryInfo>().retry_delay();
  EXPECT_GT(wait.seconds(), 10) << "half a minute a request";
  EXPECT_LE(wait.seconds(), 30);
  EXPECT_EQ(reply.trailing_metadata.count("grpc-retry-pushback-ms"), 1U);
  const std::string http = Complete("two", Completion(2));
  EXPECT_THAT(http, AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr(R"("type":"rate_limit_error")"),
                          HasSubstr(R"("code":"REQUEST_QUOTA")"), HasSubstr("x-ratelimit-reset-requests: ")));
  EXPECT_GT(NumberIn(http, "Retry-After"), 10);
  EXPECT_LE(NumberIn(http, "Retry-After"), 30);
  EXPECT_EQ(NumberIn(http, "x-ratelimit-limit-requests"), 2);
  EXPECT_EQ(NumberIn(http, "x-ratelimit-remaining-requests"), 0);
  EXPECT_TRUE(Generate("all").status.ok()) << "another key";
  const std::vector<RequestRecord> records = server_.edge().observer().WaitFor(5);
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[2].refusal_reason, "REQUEST_QUOTA");
}

TEST_F(QuotasTest, CallsOfEveryKindAreRequests) {
  v1::TokenizeRequest tokenize;
  tokenize.set_model("tiny");
  tokenize.set_text("abc");
  v1::TokenizeResponse tokens;
  grpc::ClientContext first;
  KeyedServer::As("two")(&first);
  EXPECT_TRUE(v1::TokenizerService::NewStub(server_.edge().channel())->Tokenize(&first, tokenize, &tokens).ok());
  EXPECT_THAT(server_.Http("POST", "/tokenize", KeyedServer::HeaderAs("two"), R"({"model":"tiny","prompt":"abc"})"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("x-ratelimit-remaining-requests: 0\r\n")));
  grpc::ClientContext third;
  KeyedServer::As("two")(&third);
  v1::EmbedRequest embed;
  v1::EmbedResponse vectors;
  EXPECT_EQ(v1::EmbeddingService::NewStub(server_.edge().channel())->Embed(&third, embed, &vectors).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(server_.Http("GET", "/v1/models", KeyedServer::HeaderAs("two")), StartsWith("HTTP/1.1 200 "))
      << "what takes no place in a queue is no request";
}

TEST_F(QuotasTest, ALimitOfNoneHasNoTimeToRetryAt) {
  const Reply reply = Generate("none");
  EXPECT_EQ(reply.reason(), "REQUEST_QUOTA");
  EXPECT_EQ(reply.trailing_metadata.count("grpc-retry-pushback-ms"), 0U);
  EXPECT_THAT(Complete("none", Completion(2)), AllOf(StartsWith("HTTP/1.1 429 "), Not(HasSubstr("Retry-After"))));
}

TEST_F(QuotasTest, TokensAreSettledWithThoseThatWereGenerated) {
  const std::string stopped = Complete("tokens", Completion(90, R"(,"stop":["a"])"));
  EXPECT_THAT(stopped, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(NumberIn(stopped, "x-ratelimit-limit-tokens"), 100);
  ASSERT_TRUE(Eventually([&] { return server_.edge().server().admission_stats().requests == 0; }));
  const std::string next = Complete("tokens", Completion(80, R"(,"stop":["a"])"));
  EXPECT_THAT(next, StartsWith("HTTP/1.1 200 ")) << "the first one used a few of its 90";
}

TEST_F(QuotasTest, TokensThatAreReservedOrUsedAreRefusedToOthers) {
  EXPECT_TRUE(Generate("tokens", 60).status.ok());
  ASSERT_TRUE(Eventually([&] { return server_.edge().server().admission_stats().requests == 0; }));
  const Reply reply = Generate("tokens", 60);
  EXPECT_EQ(reply.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reply.reason(), "TOKEN_QUOTA");
  EXPECT_GT(reply.Get<google::rpc::RetryInfo>().retry_delay().seconds(), 3) << "some 25 tokens are missing";
  const std::string http = Complete("tokens", Completion(60));
  EXPECT_THAT(http, AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr(R"("code":"TOKEN_QUOTA")")));
  EXPECT_LT(NumberIn(http, "x-ratelimit-remaining-tokens"), 60);
  EXPECT_GT(NumberIn(http, "x-ratelimit-remaining-tokens"), 20);
  EXPECT_TRUE(Generate("tokens", 5).status.ok()) << "a refusal takes nothing";
}

TEST_F(QuotasTest, StreamsSayWhatIsLeftInTheirHead) {
  EXPECT_THAT(Complete("two", Completion(2, R"(,"stream":true)")),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("text/event-stream"),
                    HasSubstr("x-ratelimit-remaining-requests: 1\r\n"), Not(HasSubstr("x-ratelimit-limit-tokens"))));
  EXPECT_THAT(Complete("all", Completion(2)), Not(HasSubstr("x-ratelimit"))) << "no limits";
}

TEST_F(QuotasTest, RequestsAtOnce) {
  server_.edge().control().held = true;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  KeyedServer::As("one-at-once")(&context);
  const auto stub = server_.edge().stub();
  const auto reader = stub->Generate(&context, TextRequest("abc", 3));
  ASSERT_TRUE(Eventually([&] { return server_.edge().server().admission_stats().requests == 1; }));
  const Reply refused = Generate("one-at-once");
  EXPECT_EQ(refused.reason(), "CONCURRENCY_QUOTA");
  EXPECT_EQ(refused.trailing_metadata.find("grpc-retry-pushback-ms")->second, "1000") << "limits.retry_after_ms";
  server_.edge().control().held = false;
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok());
  EXPECT_TRUE(Eventually([&] { return Generate("one-at-once").status.ok(); }));
}

TEST_F(QuotasTest, EveryPromptOfACompletionIsARequest) {
  const std::string three = R"({"model":"tiny","prompt":["a","b","c"],"max_tokens":2})";
  EXPECT_THAT(Complete("two", three), StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(Complete("all", three), StartsWith("HTTP/1.1 200 "));
}

TEST_F(QuotasTest, ReadingTheKeysAgainForgetsNothing) {
  EXPECT_TRUE(Generate("two").status.ok());
  EXPECT_TRUE(Generate("two").status.ok());
  server_.SetKeys({Limited("two", R"("requests_per_minute": 2)")});
  EXPECT_EQ(Generate("two").reason(), "REQUEST_QUOTA");
  server_.SetKeys({Limited("two", R"("requests_per_minute": 600)")});
  EXPECT_TRUE(Generate("two").status.ok()) << "the new limit holds at once";
  server_.SetKeys({Limited("two", "\"max_priority\": 0")});
  EXPECT_TRUE(Generate("two").status.ok());
}

}  // namespace
}  // namespace dunlin::server
