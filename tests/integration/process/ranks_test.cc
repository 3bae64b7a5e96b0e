// SPDX-License-Identifier: Apache-2.0
// A server whose model is divided among ranks: what it tells of them, and what clients and probes see while one of the
// ranks' threads is stopped, as a debugger or a host without processors to give would stop it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "dunlin/v1/model.grpc.pb.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<std::string> Ranked(const std::vector<std::string>& settings = {}) {
  std::vector<std::string> arguments = {"--set", "models.0.parallel.tensor=2", "--set", "compute.threads=2"};
  for (const std::string& setting : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

std::vector<std::string> GenerateOn(const ServerProcess& server, int max_tokens) {
  return {"generate",
          "--address",
          server.grpc(),
          "--model",
          "demo",
          "--json",
          "--max-tokens",
          std::to_string(max_tokens),
          "--ignore-eos",
          "--temperature",
          "0",
          "--precision",
          "fp32",
          "The dunlin is"};
}

Json JsonOf(const CommandResult& result) {
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  return Json::parse(result.out, nullptr, false);
}

// Stops a thread of a child; it goes on when this goes. Made and destroyed by one thread, its tracer.
class StoppedThread {
 public:
  StoppedThread(const ServerProcess& server, const std::string& name) {
    const std::string tasks = "/proc/" + std::to_string(server.pid()) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::string comm;
      std::ifstream(task.path() / "comm") >> comm;
      if (comm == name) thread_ = std::stoi(task.path().filename().string());
    }
    if (thread_ < 0) return;
    stopped_ = ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0 &&
               ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 && waitpid(thread_, nullptr, __WALL) == thread_;
  }
  ~StoppedThread() {
    if (!stopped_) return;
    // One that has ended meanwhile is there until its tracer has taken note of it.
    if (ptrace(PTRACE_DETACH, thread_, nullptr, nullptr) != 0) waitpid(thread_, nullptr, __WALL);
  }
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;

  bool found() const { return thread_ >= 0; }
  bool stopped() const { return stopped_; }

 private:
  pid_t thread_ = -1;
  bool stopped_ = false;
};

// Whether gRPC's health comes to this exit status of `dunlin healthcheck` within 60 s.
bool ComesToHealth(const ServerProcess& server, int status) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (RunDunlin({"healthcheck", "--address", server.grpc()}).status != status) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

TEST(Ranks, ResponsesAndGetModelTellThem) {
  const ServerProcess server(kDemo, Ranked());
  const ServerProcess whole(kDemo);
  ASSERT_TRUE(server.ready() && whole.ready()) << server.Log();
  const Json divided = JsonOf(RunDunlin(GenerateOn(server, 24)));
  const Json alone = JsonOf(RunDunlin(GenerateOn(whole, 24)));
  EXPECT_EQ(divided["execution"]["ranks"], 2) << divided;
  EXPECT_FALSE(alone["execution"].contains("ranks")) << alone;
  EXPECT_EQ(divided["token_ids"], alone["token_ids"]);

  const auto stub = v1::ModelService::NewStub(grpc::CreateChannel(server.grpc(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_name("demo");
  v1::GetModelResponse response;
  ASSERT_TRUE(stub->GetModel(&context, request, &response).ok());
  ASSERT_EQ(response.model().ranks_size(), 2);
  int32_t vocab_rows = 0;
  for (const v1::RankShare& rank : response.model().ranks()) {
    EXPECT_GT(rank.heads(), 0);
    EXPECT_GT(rank.ffn_dim(), 0);
    EXPECT_THAT(rank.device(), HasSubstr("1 thread"));
    vocab_rows += rank.vocab_rows();
  }
  EXPECT_EQ(vocab_rows, response.model().vocab_size());
  EXPECT_EQ(response.profiles(0).execution().ranks(), 2);

  const Json inspected = JsonOf(RunDunlin({"inspect", kDemoModel, "--tensor", "2", "--json"}));
  ASSERT_EQ(inspected["ranks"].size(), 2U) << inspected;
  EXPECT_EQ(inspected["ranks"][1]["heads"], response.model().ranks(1).heads());
}

TEST(Ranks, AStoppedRankFailsHealthAndItsRequestGoesOnWhereItStood) {
  const ServerProcess server(kDemo, Ranked({"health.stall_ms=1000", "health.exit_after_ms=0"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  const Json expected = JsonOf(RunDunlin(GenerateOn(server, 480), 120));
  RunningCommand client(GenerateOn(server, 480));
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 1));
  {
    const StoppedThread rank(server, "rank-1");
    ASSERT_TRUE(rank.found());
    if (!rank.stopped()) GTEST_SKIP() << "a child's threads cannot be traced: " << std::strerror(errno);
    EXPECT_TRUE(ComesToHealth(server, 1)) << server.Log();
    EXPECT_THAT(HttpGet(server.http(), "/healthz"), HasSubstr("model demo, rank 1: no progress for"));
    EXPECT_TRUE(ComesToLog(server, "stalled: model demo, rank 1: no progress for")) << server.Log();
    EXPECT_TRUE(ComesToMetric(server.http(), R"(dunlin_model_unhealthy{model_name="demo",rank="1"})", 1));
    const CommandResult refused = RunDunlin(GenerateOn(server, 4));
    EXPECT_EQ(refused.status, 1) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr("UNAVAILABLE"));
  }
  EXPECT_TRUE(ComesToHealth(server, 0)) << server.Log();
  EXPECT_TRUE(ComesToMetric(server.http(), R"(dunlin_model_unhealthy{model_name="demo",rank=""})", 0));
  EXPECT_EQ(JsonOf(client.Wait(120))["token_ids"], expected["token_ids"]);
}

TEST(Ranks, ARankThatIsStoppedForGoodEndsTheProcess) {
  ServerProcess server(kDemo, Ranked({"health.stall_ms=1000", "health.exit_after_ms=1000"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  RunningCommand client(GenerateOn(server, 480));
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 1));
  const StoppedThread rank(server, "rank-1");
  ASSERT_TRUE(rank.found());
  if (!rank.stopped()) GTEST_SKIP() << "a child's threads cannot be traced: " << std::strerror(errno);
  EXPECT_TRUE(ComesToLog(server, "stalled")) << server.Log();
  EXPECT_EQ(client.Wait(60).status, 1) << "the client is told, and does not wait";
}

TEST(Ranks, ADrainedServerFinishesWhatRuns) {
  ServerProcess server(kDemo, Ranked());
  ASSERT_TRUE(server.ready()) << server.Log();
  RunningCommand client(GenerateOn(server, 240));
  ASSERT_TRUE(ComesToMetric(server.http(), kRunning, 1));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(60), 0) << server.Log();
  EXPECT_EQ(JsonOf(client.Wait(60))["token_ids"].size(), 240U);
}

}  // namespace
}  // namespace dunlin::integration
