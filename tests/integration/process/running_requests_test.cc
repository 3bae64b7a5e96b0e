// SPDX-License-Identifier: Apache-2.0
// Requests that really run while something happens: neighbours come, their client is killed, their deadline passes, the
// server is told to stop. Every test waits until they run, and checks that they had not ended before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// A generation of eight outputs that takes seconds, by MATH.
std::vector<std::string> EightLongOutputs(const ServerProcess& server, const std::string& precision) {
  return {"generate",    "--address",    server.grpc(),
          "--model",     "demo",         "--max-tokens",
          "480",         "--n",          "8",
          "--precision", precision,      "--seed",
          "1",           "--ignore-eos", "--attention-backend",
          "math",        "A long tale"};
}

class RunningRequests : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(kDemo); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  // Requests of the test before may still be ending: they must not be taken for those of this one.
  void SetUp() override {
    ASSERT_TRUE(server_->ready()) << server_->Log();
    ASSERT_TRUE(ComesToMetric(server_->http(), kRunning, 0));
  }

  static Json Answer(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"generate", "--address", server_->grpc(), "--model", "demo", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const CommandResult result = RunDunlin(all);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    return Json::parse(result.out, nullptr, false);
  }

  static ServerProcess* server_;
};

ServerProcess* RunningRequests::server_ = nullptr;

TEST_F(RunningRequests, SameRequestSameBitsWhateverRunsBeside) {
  const std::vector<std::string> arguments = {"--max-tokens", "24", "--seed",       "11",
                                              "--logprobs",   "1",  "--ignore-eos", "Once there was a king who"};
  const Json alone = Answer(arguments);
  std::deque<RunningCommand> neighbours;
  for (const char* precision : {"bf16", "fp8"}) neighbours.emplace_back(EightLongOutputs(*server_, precision));
  ASSERT_TRUE(ComesToMetric(server_->http(), kRunning, 16));
  const Json crowded = Answer(arguments);
  EXPECT_GE(MetricValue(HttpGet(server_->http(), "/metrics"), kRunning), 8) << "the neighbours ended before it did";
  neighbours.clear();
  EXPECT_EQ(alone["token_ids"], crowded["token_ids"]);
  EXPECT_EQ(alone["logprobs"], crowded["logprobs"]);
}

TEST_F(RunningRequests, KilledClientsReleaseTheirPages) {
  const std::string cancelled =
      R"(dunlin_requests_total{attention_backend="math",precision="fp32",status="CANCELLED"})";
  const double before = std::max(MetricValue(HttpGet(server_->http(), "/metrics"), cancelled), 0.0);
  for (int i = 1; i <= 2; ++i) {
    RunningCommand client(EightLongOutputs(*server_, "fp32"));
    ASSERT_TRUE(ComesToMetric(server_->http(), kRunning, 8));
    EXPECT_GE(MetricValue(HttpGet(server_->http(), "/metrics"), kPagesUsed), 8);
    client.Signal(SIGKILL);
    EXPECT_EQ(client.Wait().status, 128 + SIGKILL) << "it had ended before";
    EXPECT_TRUE(ComesToMetric(server_->http(), cancelled, before + i));
    EXPECT_TRUE(ComesToMetric(server_->http(), kPagesUsed, 0));
  }
}

// Each on a server of its own: one that has served knows how long outputs take, and refuses those that would be late
// before they begin.
TEST(Deadlines, InFlightReleaseThePages) {
  const std::string late =
      R"(dunlin_requests_total{attention_backend="math",precision="fp32",status="DEADLINE_EXCEEDED"})";
  const std::string tokens = R"(vllm:generation_tokens_total{model_name="demo"})";
  double drawn = 0;
  for (const char* timeout_ms : {"100", "300", "1000"}) {  // until it has begun by then: not at once on a busy machine
    ServerProcess server(kDemo);
    ASSERT_TRUE(server.ready()) << server.Log();
    std::vector<std::string> arguments = EightLongOutputs(server, "fp32");
    arguments.insert(arguments.end(), {"--timeout-ms", timeout_ms});
    const CommandResult result = RunDunlin(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("DEADLINE_EXCEEDED"));
    EXPECT_TRUE(ComesToMetric(server.http(), kPagesUsed, 0));
    drawn = MetricValue(HttpGet(server.http(), "/metrics"), tokens);
    if (drawn <= 0) continue;
    EXPECT_TRUE(ComesToMetric(server.http(), late, 1));
    break;
  }
  EXPECT_GT(drawn, 0) << "it never ran";
  EXPECT_LT(drawn, 8 * 480) << "it ran to its end";
}

TEST(Serve, SigtermLetsRunningRequestsFinish) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  RunningCommand client({"generate", "--address", server.grpc(), "--model", "demo", "--json", "--max-tokens", "300",
                         "--n", "8", "--ignore-eos", "--request-id", "long", "A long tale"});
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 8));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(30), 0);
  const CommandResult result = client.Wait();
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"token_ids\""));
  const std::string log = server.Log();
  const size_t draining = log.find("stopping: draining");
  ASSERT_NE(draining, std::string::npos) << log;
  const size_t ended = log.find("request id=\"long\" ");
  ASSERT_NE(ended, std::string::npos) << log;
  EXPECT_GT(ended, draining) << "it had ended before the signal";
  EXPECT_THAT(log.substr(ended), HasSubstr("completion_tokens=2400 "));
}

// Tells a server that runs eight requests to stop, and waits until it drains.
void StopWhileEightRun(ServerProcess& server) {
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 8));
  server.Signal(SIGTERM);
  ASSERT_TRUE(ComesToLog(server, "stopping: draining")) << server.Log();
}

TEST(Serve, ASignalThatAWrapperSendsTwiceIsOne) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  RunningCommand client(EightLongOutputs(server, "fp32"));
  ASSERT_NO_FATAL_FAILURE(StopWhileEightRun(server));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(30), 0) << server.Log();
  EXPECT_EQ(client.Wait().status, 0) << "its request runs to its end";
}

TEST(Serve, SecondSigtermEndsAtOnce) {
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  RunningCommand client(EightLongOutputs(server, "fp32"));
  ASSERT_NO_FATAL_FAILURE(StopWhileEightRun(server));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(10), 1) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("second stop signal: exiting immediately"));
  EXPECT_EQ(client.Wait().status, 1) << "its request had ended before";
}

}  // namespace
}  // namespace dunlin::integration
