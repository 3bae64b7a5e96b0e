// SPDX-License-Identifier: Apache-2.0
// Requests over HTTP that run while something happens to the server or to their client; what the log and /metrics say
// of them; and a server without the APIs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <regex>
#include <string>
#include <thread>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::integration {
namespace {

using server::RawClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Eight outputs that take seconds, by MATH in FP32.
const std::string kLong =
    R"({"model":"demo","prompt":"A long tale","n":8,"max_tokens":480,"seed":1,"ignore_eos":true,"stream":true,)"
    R"("attention_backend":"math","precision":"fp32"})";

std::string PostText(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

TEST(HttpRequests, KilledClientsReleaseTheirPages) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  RawClient client(server.http());
  client.Send(PostText("/v1/completions", kLong));
  ASSERT_THAT(client.ReadUntil("data: "), StartsWith("HTTP/1.1 200 "));
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 8));
  client.Close();
  EXPECT_TRUE(ComesToMetric(server.http(), kPagesUsed, 0));
  EXPECT_TRUE(ComesToMetric(
      server.http(), R"(dunlin_requests_total{attention_backend="math",precision="fp32",status="CANCELLED"})", 1));
  EXPECT_EQ(MetricValue(HttpGet(server.http(), "/metrics"),
                        R"(dunlin_http_responses_total{route="/v1/completions",status="200"})"),
            1);
}

TEST(HttpRequests, SigtermLetsStreamsFinish) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  RawClient client(server.http());
  client.Send(PostText("/v1/completions", kLong, "x-request-id: long\r\n"));
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 8));
  server.Signal(SIGTERM);
  ASSERT_TRUE(ComesToLog(server, "stopping: draining")) << server.Log();
  RawClient late(server.http());
  late.Send(PostText("/v1/completions", R"({"model":"demo","prompt":"a"})", "Connection: close\r\n"));
  EXPECT_THAT(late.ReadAll(),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: "), HasSubstr(R"("code":"DRAINING")")));
  const std::string stream = client.ReadAll();
  EXPECT_THAT(stream, HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(server.Wait(30), 0);
  EXPECT_THAT(server.Log(), HasSubstr("request id=\"long\" model=\"demo\" profile=cpu/math/fp32 prompt_tokens="));
  EXPECT_THAT(server.Log(), HasSubstr("completion_tokens=3840 "));
}

TEST(HttpRequests, SecondSigtermEndsStreamsAtOnce) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  RawClient client(server.http());
  client.Send(PostText("/v1/completions", kLong));
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 8));
  server.Signal(SIGTERM);
  ASSERT_TRUE(ComesToLog(server, "stopping: draining")) << server.Log();
  std::this_thread::sleep_for(std::chrono::milliseconds(250));  // within 0.2 s it is the first one, sent twice
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(10), 1) << server.Log();
  EXPECT_THAT(client.ReadAll(), Not(HasSubstr("[DONE]")));
}

// The request's log line without its id and its times.
std::string LineOf(const ServerProcess& server, const std::string& id) {
  std::smatch match;
  const std::string log = server.Log();
  if (!std::regex_search(log, match, std::regex("request id=\"" + id + "\" [^\n]*"))) return "";
  const std::string line = std::regex_replace(match.str(), std::regex("id=\\S+"), "id=");
  return std::regex_replace(line, std::regex("_ms=\\S+"), "_ms=");
}

TEST(HttpRequests, AreLoggedAsThoseOfGrpc) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--max-tokens", "4", "--temperature",
                       "0", "--request-id", "rpc", "The dunlin"})
                .status,
            0);
  RawClient client(server.http());
  client.Send(PostText("/v1/completions", R"({"model":"demo","prompt":"The dunlin","max_tokens":4,"temperature":0})",
                       "x-request-id: http\r\n"));
  EXPECT_THAT(client.ReadReply(), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("x-request-id: http\r\n")));
  for (const char* id : {"http", "rpc"}) {
    ASSERT_TRUE(ComesToLog(server, "request id=\"" + std::string(id) + "\" ")) << server.Log();
  }
  EXPECT_EQ(LineOf(server, "http"), LineOf(server, "rpc"));
}

// A typing error and a tool that nobody runs, whole and as a stream, on routes of both vendors.
TEST(HttpRequests, NameWhatHadNoEffectUnlessTheServerIsStrict) {
  const std::string messages =
      R"({"model":"demo","max_tokens":2,"mood":1,"messages":[{"role":"user","content":"Hi"}],)";
  const std::pair<const char*, std::string> requests[] = {
      {"/v1/chat/completions", messages + R"("tools":[{"type":"web_search"}]})"},
      {"/v1/chat/completions", messages + R"("stream":true,"tools":[{"type":"web_search"}]})"},
      {"/v1/messages", messages + R"("stream":true,"tools":[{"type":"web_search","name":"w"}]})"},
      {"/v1/messages/count_tokens", messages + R"("tools":[{"type":"web_search","name":"w"}]})"},
      {"/v1/responses",
       R"({"model":"demo","max_output_tokens":2,"mood":1,"input":"Hi","tools":[{"type":"web_search"}]})"},
  };
  ServerProcess server(kDemo);
  ServerProcess strict(kDemo, {"--set", "protocols.openai.strict=true"});
  ASSERT_TRUE(server.ready() && strict.ready()) << server.Log() << strict.Log();
  for (const auto& [path, body] : requests) {
    RawClient client(server.http());
    client.Send(PostText(path, body, "Connection: close\r\n"));
    EXPECT_THAT(client.ReadAll(),
                AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("x-dunlin-ignored: mood, tools[web_search]\r\n")))
        << path;
    RawClient refused(strict.http());
    refused.Send(PostText(path, body, "Connection: close\r\n"));
    EXPECT_THAT(refused.ReadAll(), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("mood is not a field of this request"),
                                         Not(HasSubstr("x-dunlin-ignored"))))
        << path;
  }
  const std::string metrics = HttpGet(server.http(), "/metrics");
  EXPECT_EQ(MetricValue(metrics, R"(dunlin_ignored_members_total{route="/v1/chat/completions"})"), 4);
  EXPECT_EQ(MetricValue(metrics, R"(dunlin_ignored_members_total{route="/v1/messages/count_tokens"})"), 2);
  ASSERT_TRUE(ComesToLog(server, R"(/v1/chat/completions: "mood" of requests has no effect here)"));
  const std::string line = "/v1/chat/completions: \"mood\"";
  const std::string log = server.Log();
  EXPECT_EQ(log.find(line, log.find(line) + 1), std::string::npos) << "one line for each name";
}

TEST(HttpRequests, AreProbesAloneWithoutTheProtocol) {
  ServerProcess server(kDemo, {"--set", "protocols.openai=false"});
  ASSERT_TRUE(server.ready()) << server.Log();
  for (const char* path : {"/v1/completions", "/v1/messages", "/tokenize"}) {
    RawClient client(server.http());
    client.Send(PostText(path, "{}", "Connection: close\r\n"));
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 404 ")) << path;
  }
  EXPECT_EQ(HttpGet(server.http(), "/readyz"), "ok\n");
}

}  // namespace
}  // namespace dunlin::integration
