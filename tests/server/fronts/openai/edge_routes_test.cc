// SPDX-License-Identifier: Apache-2.0
// The HTTP port of an Edge: which routes it has, and what they say while models load, while it serves and while it
// drains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/edge/edge.h"
#include "tests/server/serving/test_models.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EdgeRoutes : public ::testing::Test {
 protected:
  void Start(bool openai, bool profile_aliases = false) {
    EdgeOptions options;
    options.serving.profile_aliases = profile_aliases;
    options.http.emplace();
    options.http->address = "127.0.0.1:0";
    options.http->sources = {[] { return std::string("metric 1\n"); }, [] { return std::string(); },
                             [this] { return unready_; }};
    options.fronts.Set("protocols.openai.enabled", openai ? "true" : "false");
    options.version = "1.2.3";
    const absl::StatusOr<int> port = edge_.Start("127.0.0.1:0", Limits(), &models_.repository(), nullptr, options);
    ASSERT_TRUE(port.ok()) << port.status();
  }
  std::string Get(const std::string& path) {
    RawClient client(edge_.http_address());
    client.Send("GET " + path + " HTTP/1.1\r\nConnection: close\r\n\r\n");
    return client.ReadAll();
  }

  std::string unready_ = "loading";  // set between requests
  TestModels models_{engine::EngineOptions()};
  Edge edge_;
};

TEST_F(EdgeRoutes, SayHowTheServerIs) {
  Start(true);
  EXPECT_THAT(Get("/health"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr(R"("reason":"loading")")));
  unready_ = "";
  edge_.SetServing(true);
  EXPECT_THAT(Get("/health"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n{\"status\":\"ok\"}")));
  EXPECT_THAT(Get("/version"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n{\"version\":\"1.2.3\"}")));
  EXPECT_THAT(Get("/metrics"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("metric 1\n")));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  unready_ = "draining";
  edge_.Shutdown(absl::Now());
  EXPECT_THAT(Get("/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("draining\n"))) << "until the very end";
}

TEST_F(EdgeRoutes, ListProfilesAsModelsWhenAskedTo) {
  Start(true, true);
  EXPECT_THAT(Get("/v1/models"), AllOf(HasSubstr(R"("id":"tiny")"), HasSubstr(R"("id":"tiny@flash-bf16")")));
  EXPECT_THAT(Get("/v1/models/tiny@flash-bf16"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr(R"("id":"tiny@flash-bf16")")));
  edge_.SetServing(true);
  EXPECT_THAT(Get("/v1/models/tiny@fast"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(EdgeRoutes, RefuseBodiesInTheirClientsWords) {
  Start(true);
  const auto post = [this](const std::string& path) {
    RawClient client(edge_.http_address());
    client.Send("POST " + path + " HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n");
    return client.ReadAll();
  };
  EXPECT_THAT(
      post("/v1/chat/completions"),
      AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr(R"({"error":{"message":"the body has 999999999 bytes; limit is )")));
  EXPECT_THAT(post("/v1/messages"), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr(R"({"type":"error","error":{)")));
}

TEST_F(EdgeRoutes, AnswerInTheWordsOfTheClientsApi) {
  Start(true);
  edge_.SetServing(true);
  const auto body = [this](const std::string& request, const std::string& header = "") {
    RawClient client(edge_.http_address());
    client.Send(request + " HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n" + header + "\r\n");
    const std::string answer = client.ReadAll();
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  const auto of_anthropic = [](const std::string& type, const std::string& message) {
    return R"({"type":"error","error":{"type":")" + type + R"(","message":")" + message + R"("}})";
  };
  const char kBatches[] = "not found: nothing is served at /v1/messages/batches";
  EXPECT_EQ(body("POST /v1/messages/batches"), of_anthropic("not_found_error", kBatches));
  EXPECT_EQ(body("GET /v1/files", "Anthropic-Version: 2023-06-01\r\n"),
            of_anthropic("not_found_error", "not found: nothing is served at /v1/files"));
  EXPECT_THAT(body("GET /v1/files"), StartsWith(R"({"error":{"message":"not found)"));
  EXPECT_THAT(body("GET /v1/models/nobody"), StartsWith(R"({"error":{"message":)"));
  EXPECT_THAT(body("GET /v1/models/nobody", "anthropic-version: 2023-06-01\r\n"),
              StartsWith(R"({"type":"error","error":{"type":"not_found_error")"));
  EXPECT_THAT(body("GET /v1/models", "anthropic-version: 2023-06-01\r\n"),
              AllOf(HasSubstr(R"("display_name":"tiny","type":"model","lifecycle":"active","created_at":")"),
                    HasSubstr(R"("has_more":false)")));
  EXPECT_EQ(body("GET /v1/messages"),
            of_anthropic("invalid_request_error", "method not allowed; allowed: POST, OPTIONS"));
  EXPECT_THAT(body("DELETE /v1/models/tiny"), StartsWith(R"({"error":{"message":"method not allowed; allowed: GET)"));
}

TEST_F(EdgeRoutes, HaveRetryAfterWhileModelsLoad) {
  Start(true);
  RawClient client(edge_.http_address());
  client.Send("POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_THAT(client.ReadAll(),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n"), HasSubstr(R"("code":"LOADING")")));
}

TEST_F(EdgeRoutes, AreProbesAloneWithoutTheOpenAiProtocol) {
  Start(false);
  EXPECT_THAT(Get("/health"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST(Edge, NamesTheHttpAddressThatCannotBeBound) {
  TestModels models{engine::EngineOptions()};
  Edge edge;
  EdgeOptions options;
  options.http.emplace();
  options.http->address = "nowhere";
  EXPECT_THAT(
      std::string(edge.Start("127.0.0.1:0", Limits(), &models.repository(), nullptr, options).status().message()),
      HasSubstr("listen.http is \"nowhere\""));
}

}  // namespace
}  // namespace dunlin::server
