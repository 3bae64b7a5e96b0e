// SPDX-License-Identifier: Apache-2.0
// What strangers may not do to the binary as it is started by default: hold bodies back, use it through somebody's
// browser, manage it without a key, or stop it with its log.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

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

constexpr char kAttacker[] = "127.0.0.1";
constexpr char kOther[] = "127.0.0.2";
constexpr size_t kBodyBytes = size_t{4} << 20;

// One request on a connection of its own; everything that comes back.
std::string Ask(const ServerProcess& server, const std::string& head, const std::string& body = "",
                const char* from = kAttacker) {
  RawClient client(server.http(), 0, from);
  const std::string length = body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
  client.Send(head + "Connection: close\r\n" + length + "\r\n" + body);
  return client.ReadAll();
}

std::string Complete(const ServerProcess& server, const std::string& headers, const char* from = kAttacker) {
  return Ask(server, "POST /v1/completions HTTP/1.1\r\n" + headers,
             R"({"model":"demo","prompt":"The dunlin","max_tokens":2})", from);
}

class HeldBodies : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, HeldBodies, testing::Values(16, 64));

TEST_P(HeldBodies, LeaveRoomForOthersAndForSmallRequestsOfTheirOwnAddress) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  std::vector<RawClient> held;
  for (int i = 0; i < GetParam(); ++i) {
    held.emplace_back(server.http(), 0, kAttacker);
    held.back().Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                     std::to_string(kBodyBytes) + "\r\n\r\n");
  }
  const auto expect_room = [&server](const char* what) {
    for (const char* from : {kAttacker, kOther}) {
      EXPECT_THAT(Complete(server, "Host: localhost\r\n", from), StartsWith("HTTP/1.1 200 ")) << what << from;
    }
  };
  expect_room("announced, of ");
  EXPECT_EQ(MetricValue(HttpGet(server.http(), "/metrics"), "dunlin_queued_bytes"), 0);
  const std::string all_but_one(kBodyBytes - 1, ' ');
  for (RawClient& client : held) client.Send(all_but_one);  // some are refused meanwhile
  expect_room("held, of ");
  EXPECT_LE(MetricValue(HttpGet(server.http(), "/metrics"), "dunlin_queued_bytes"), 56 << 20);
  EXPECT_TRUE(ComesToMetric(server.http(), "dunlin_queued_bytes", 0)) << "bodies that stop are cut off";
}

TEST(Browser, APageOfAnotherSiteReadsAndStartsNothing) {
  ServerProcess server(kDemo, {"--set", "listen.http_host_names=dunlin.example"});
  ASSERT_TRUE(server.ready()) << server.Log();
  for (const char* path : {"/metrics", "/healthz", "/v1/models", "/v2", "/nowhere"}) {
    const std::string get = std::string("GET ") + path + " HTTP/1.1\r\n";
    EXPECT_THAT(Ask(server, get + "Host: rebound.example:8080\r\n"), StartsWith("HTTP/1.1 421 ")) << path;
    EXPECT_THAT(Ask(server, get + "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n"), StartsWith("HTTP/1.1 403 "))
        << path;
  }
  const std::string json = "Content-Type: application/json\r\n";
  const std::string local = "Host: " + server.http() + "\r\n";
  EXPECT_THAT(Complete(server, "Host: rebound.example\r\n" + json), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Complete(server, local + json + "Sec-Fetch-Site: cross-site\r\nOrigin: https://evil.example\r\n"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Complete(server, local + "Content-Type: text/plain\r\nOrigin: https://evil.example\r\n"),
              StartsWith("HTTP/1.1 403 "))
      << "a browser that does not tell of sites";
  EXPECT_THAT(Complete(server, local + "Content-Type: text/plain\r\n"), StartsWith("HTTP/1.1 415 "));
  EXPECT_THAT(
      Complete(server, local + "Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: Mozilla/5.0\r\n"),
      StartsWith("HTTP/1.1 415 "));
  EXPECT_EQ(MetricValue(HttpGet(server.http(), "/metrics"), "vllm:generation_tokens_total{model_name=\"demo\"}"), 0);
  for (const std::string& host :
       {local, std::string("Host: dunlin.example\r\n"), std::string("Host: localhost:1\r\n")}) {
    EXPECT_THAT(Complete(server, host + json), StartsWith("HTTP/1.1 200 ")) << host;
    EXPECT_THAT(
        Complete(server, host + "Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: curl/8.9.1\r\n"),
        StartsWith("HTTP/1.1 200 "))
        << "curl -d";
  }
}

TEST(Admin, CallsNeedAKeyBehindAProxyUnlessTheConfigSaysOtherwise) {
  const std::string unload = "POST /v2/repository/models/demo/unload HTTP/1.1\r\nHost: localhost\r\n";
  for (const bool allowed : {false, true}) {
    std::vector<std::string> settings = {"--set", "access.behind_proxy=true"};
    if (allowed) settings.insert(settings.end(), {"--set", "access.admin_without_keys=true"});
    ServerProcess server(kDemo, settings);
    ASSERT_TRUE(server.ready()) << server.Log();
    EXPECT_THAT(Complete(server, "Host: localhost\r\n"), StartsWith("HTTP/1.1 200 "));
    const std::string answer = Ask(server, unload, "{}");
    if (allowed) {
      EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 "), Not(StartsWith("HTTP/1.1 403 "))));
    } else {
      EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("access.keys_file")));
      EXPECT_TRUE(ComesToLog(server, "access denied key=unknown endpoint=\"POST /v2/repository/models/{path}\""));
    }
  }
}

TEST(Log, LinesThatAFullDiskTakesNotAreCountedAndStopNothing) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ServerProcess server(kDemo, {}, {.until_ready = true, .log = full});
  close(full);
  ASSERT_TRUE(server.ready());
  const auto lost = [&server] {
    return MetricValue(HttpGet(server.http(), "/metrics"), "dunlin_log_lines_dropped_total");
  };
  const double before = lost();
  EXPECT_GT(before, 0) << "those of the start";
  EXPECT_THAT(Complete(server, "Host: localhost\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(ComesToMetric(server.http(), "dunlin_log_lines_dropped_total", before + 1));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(30), 0);
}

}  // namespace
}  // namespace dunlin::integration
