// SPDX-License-Identifier: Apache-2.0
// Parsing of HTTP data: events, OpenAI chunks, /metrics, addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
  EXPECT_TRUE(completion->has_text);
  EXPECT_EQ(completion->finish_reason, "");
  const auto chat = ParseOpenAiEvent(R"({"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_TRUE(chat->has_text);
  EXPECT_EQ(chat->finish_reason, "length");
  const auto role = ParseOpenAiEvent(R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})");
  ASSERT_TRUE(role.ok());
  EXPECT_FALSE(role->has_text) << "the first chunk of a chat is not a token";
  const auto usage = ParseOpenAiEvent(R"({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->prompt_tokens, 5);
  EXPECT_EQ(usage->completion_tokens, 7);
  EXPECT_TRUE(ParseOpenAiEvent("[DONE]")->done);
}

TEST(OpenAi, ErrorsAndMalformedDataAreErrors) {
  EXPECT_FALSE(ParseOpenAiEvent("").ok());
  EXPECT_FALSE(ParseOpenAiEvent("{\"choices\": ").ok());
  EXPECT_FALSE(ParseOpenAiEvent("[1]").ok());
  const auto error = ParseOpenAiEvent(R"({"error": {"message": "out of memory", "code": 500}})");
  EXPECT_EQ(std::string(error.status().message()), "out of memory");
  EXPECT_EQ(OpenAiErrorMessage(R"({"error": "busy"})"), "busy");
  EXPECT_EQ(OpenAiErrorMessage("<html>"), "");
  EXPECT_TRUE(ParseOpenAiEvent(R"({"choices": [5]})").ok()) << "unexpected, but not an error";
}

TEST(OpenAi, BodiesRequestAStreamWithUsage) {
  RequestOptions options;
  options.model = "m";
  Prompt prompt;
  prompt.text = "hello";
  prompt.max_tokens = 9;
  auto body = nlohmann::json::parse(OpenAiBody(options, prompt, 3));
  EXPECT_EQ(body["prompt"], "hello");
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  options.chat = true;
  body = nlohmann::json::parse(OpenAiBody(options, prompt, 3));
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
