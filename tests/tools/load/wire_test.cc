// SPDX-License-Identifier: Apache-2.0
// Parsing of HTTP data: events, OpenAI chunks, /metrics, addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/load/http_target.h"
#include "tools/load/openai.h"
#include "tools/load/server_watch.h"
#include "tools/load/sse_parser.h"

namespace dunlin::tools::load {
namespace {

using ::testing::ElementsAre;

TEST(SseParser, EventsDoNotDependOnHowTheBytesAreSplit) {
  const std::string stream =
      ": a comment\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\n\n\n\ndata: three\r\rid: 5\n\ndata: "
      "unfinished\n";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    SseParser parser;
    std::vector<std::string> events;
    for (size_t at = 0; at < stream.size(); at += piece) {
      ASSERT_TRUE(parser.Feed(std::string_view(stream).substr(at, piece), &events));
    }
    ASSERT_THAT(events, ElementsAre("one", "two\nlines", "three")) << piece;
  }
}

TEST(SseParser, RejectsAnEndlessEvent) {
  SseParser parser;
  std::vector<std::string> events;
  const std::string block(64 << 10, 'x');
  bool ok = true;
  for (int i = 0; i < 64 && ok; ++i) ok = parser.Feed(block, &events);
  EXPECT_FALSE(ok);
  EXPECT_TRUE(events.empty());
}

TEST(OpenAi, ReadsChunksOfBothEndpoints) {
  const auto completion = ParseOpenAiEvent(R"({"choices": [{"text": "a", "finish_reason": null}]})");
  ASSERT_TRUE(completion.ok());
  EXPECT_EQ(completion->num_tokens, 1);
  EXPECT_EQ(completion->finish_reason, "");
  const auto chat = ParseOpenAiEvent(R"({"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->num_tokens, 1);
  EXPECT_EQ(chat->finish_reason, "length");
  const auto role = ParseOpenAiEvent(R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})");
  ASSERT_TRUE(role.ok());
  EXPECT_EQ(role->num_tokens, 0) << "the first chunk of a chat is not a token";
  for (const char* delta : {R"("reasoning_content": "x")", R"("reasoning": "x")", R"("tool_calls": [{"index": 0}])"}) {
    const auto event = ParseOpenAiEvent(absl::StrCat(R"({"choices": [{"delta": {)", delta, "}}]}"));
    ASSERT_TRUE(event.ok()) << delta;
    EXPECT_EQ(event->num_tokens, 1) << delta;
  }
  const auto usage = ParseOpenAiEvent(R"({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->prompt_tokens, 5);
  EXPECT_EQ(usage->completion_tokens, 7);
  EXPECT_TRUE(ParseOpenAiEvent("[DONE]")->done);
}

TEST(OpenAi, TokenIdsAndTimingsAreThoseOfTheServer) {
  const auto two = ParseOpenAiEvent(R"({"choices": [{"text": "", "token_ids": [5, 6]}]})");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->num_tokens, 2) << "tokens whose text is held back count";
  const auto none = ParseOpenAiEvent(R"({"choices": [{"text": "a", "token_ids": []}]})");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->num_tokens, 0) << "text that was held back is no new token";
  EXPECT_EQ(none->engine_ms, -1);
  const auto last = ParseOpenAiEvent(
      R"({"choices": [], "dunlin": {"timings": {"queue_ms": 0.5, "ttft_ms": 2.0, "total_ms": 8.25}}})");
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->engine_ms, 7.75);
}

TEST(OpenAi, ErrorsAndMalformedDataAreErrors) {
  EXPECT_FALSE(ParseOpenAiEvent("").ok());
  EXPECT_FALSE(ParseOpenAiEvent("{\"choices\": ").ok());
  EXPECT_FALSE(ParseOpenAiEvent("[1]").ok());
  const auto error = ParseOpenAiEvent(R"({"error": {"message": "out of memory", "code": 500}})");
  ASSERT_TRUE(error.ok() && error->error.has_value());
  EXPECT_EQ(error->error->message, "out of memory");
  EXPECT_EQ(error->error->reason, "") << "a number is the status again";
  EXPECT_EQ(ParseOpenAiFailure(R"({"error": {"message": "m", "code": "QUEUE_FULL"}})").reason, "QUEUE_FULL");
  EXPECT_EQ(ParseOpenAiFailure(R"({"error": "busy"})").message, "busy");
  EXPECT_EQ(ParseOpenAiFailure(R"({"error": [1]})").message, "an error without a message");
  EXPECT_EQ(ParseOpenAiFailure("<html>").message, "");
  EXPECT_TRUE(ParseOpenAiEvent(R"({"choices": [5]})").ok()) << "unexpected, but not an error";
}

TEST(OpenAi, BodiesRequestAStreamWithUsage) {
  RequestOptions options;
  options.model = "m";
  Prompt prompt;
  prompt.text = "hello";
  prompt.max_tokens = 9;
  MixEntry profile;
  auto body = nlohmann::json::parse(OpenAiBody(options, prompt, profile, 3));
  EXPECT_EQ(body["prompt"], "hello");
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  for (const char* extension :
       {"attention_backend", "precision", "allow_fallback", "speculation", "return_token_ids"}) {
    EXPECT_FALSE(body.contains(extension)) << extension << " is sent only where it is asked for";
  }
  options.chat = options.token_ids = options.allow_fallback = true;
  options.speculation = "4";
  profile = ParseMix("FLASH:bf16")->front();
  body = nlohmann::json::parse(OpenAiBody(options, prompt, profile, 3));
  EXPECT_EQ(body["attention_backend"], "flash");
  EXPECT_EQ(body["precision"], "bf16");
  EXPECT_EQ(body["allow_fallback"], true);
  EXPECT_EQ(body["speculation"], "4");
  EXPECT_EQ(body["return_token_ids"], true);
  EXPECT_EQ(body["messages"][0]["content"], "hello");
  EXPECT_FALSE(body.contains("prompt"));
}

TEST(ServerSample, SumsLabelsAndSkipsTheRest) {
  const ServerSample sample = ParseServerSample(
      "# HELP dunlin_kv_pages_used x\n# TYPE dunlin_kv_pages_used gauge\n"
      "dunlin_kv_pages_used{model_name=\"a b\"} 3\ndunlin_kv_pages_used{model_name=\"c\"} 4\n"
      "process_resident_memory_bytes 1.5e+08\nother{x=\"process_threads 5\"} 1\nprocess_threads nonsense\n");
  EXPECT_EQ(sample.kv_pages_used, 7);
  EXPECT_EQ(sample.rss_bytes, 1.5e8);
  EXPECT_EQ(sample.threads, -1);
}

TEST(HttpTarget, ReadsUrlsAndAddresses) {
  const auto url = ResolveHttp("http://127.0.0.1:8080/x/y", "/metrics");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->path, "/x/y");
  EXPECT_EQ(url->host, "127.0.0.1:8080");
  EXPECT_EQ(url->port, 8080);
  EXPECT_EQ(ResolveHttp("127.0.0.1:1", "/metrics")->path, "/metrics");
  EXPECT_EQ(ResolveHttp("http://127.0.0.1:1/", "/metrics")->path, "/metrics");
  for (const char* bad : {"ftp://127.0.0.1:1", "127.0.0.1", ":80", "", "host:"}) {
    EXPECT_FALSE(ResolveHttp(bad, "/").ok()) << bad;
  }
}

TEST(HttpTarget, TheSchemeDecidesOnTlsAndWithoutOneTheOptions) {
  ClientTls tls;
  tls.server_name = "dunlin.example";
  EXPECT_EQ(ResolveHttp("127.0.0.1:1", "/")->tls, nullptr);
  EXPECT_EQ(ResolveHttp("http://127.0.0.1:1", "/", tls)->tls, nullptr);
  EXPECT_NE(ResolveHttp("127.0.0.1:1", "/", tls)->tls, nullptr);
  const auto https = ResolveHttp("https://127.0.0.1:1/x", "/");
  ASSERT_TRUE(https.ok()) << https.status();
  EXPECT_NE(https->tls, nullptr);
  EXPECT_EQ(https->name, "127.0.0.1");
  EXPECT_EQ(https->path, "/x");
  EXPECT_EQ(ResolveHttp("127.0.0.1:1", "/", tls)->name, "dunlin.example");
  tls.ca_file = "/nowhere";
  EXPECT_FALSE(ResolveHttp("127.0.0.1:1", "/", tls).ok());
}

}  // namespace
}  // namespace dunlin::tools::load
