// SPDX-License-Identifier: Apache-2.0
// `dunlin load` against a server that the test starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CommandResult Load(const ServerProcess& server, std::vector<std::string> arguments) {
  std::vector<std::string> all = {"load", "--model", "demo"};
  const bool openai = std::find(arguments.begin(), arguments.end(), "openai") != arguments.end();
  all.insert(all.end(), {"--address", openai ? server.http() : server.grpc()});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunDunlin(all);
}

Json LoadJson(const ServerProcess& server, std::vector<std::string> arguments, int status = 0) {
  arguments.insert(arguments.end(), {"--json", "-", "--server-metrics", server.http()});
  const CommandResult result = Load(server, arguments);
  EXPECT_EQ(result.status, status) << result.out << result.err;
  return Json::parse(result.out, nullptr, false);
}

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class LoadTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(kDemo); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override { ASSERT_TRUE(server_->ready()) << server_->Log(); }

  static ServerProcess* server_;
};

ServerProcess* LoadTest::server_ = nullptr;

TEST_F(LoadTest, ClosedLoopCountsWhatTheServerCounts) {
  const std::string tokens = "vllm:generation_tokens_total{model_name=\"demo\"}";
  const double before = MetricValue(HttpGet(server_->http(), "/metrics"), tokens);
  const Json json = LoadJson(*server_, {"--concurrency", "4", "--num-prompts", "20", "--input-len", "16",
                                        "--output-len", "8", "--max-errors", "0"});
  EXPECT_EQ(json["completed"], 20);
  EXPECT_EQ(json["total_input_tokens"], 20 * 16);
  EXPECT_EQ(json["total_output_tokens"], 20 * 8);
  EXPECT_EQ(json["max_concurrent_requests"], 4);
  EXPECT_TRUE(ComesToMetric(server_->http(), tokens, before + 20 * 8));
  EXPECT_GT(json["mean_ttft_ms"], 0);
  EXPECT_GE(json["mean_e2el_ms"], json["mean_ttft_ms"]);
  EXPECT_GT(json["mean_beyond_engine_ms"], 0);
  EXPECT_LT(json["mean_beyond_engine_ms"], json["mean_e2el_ms"]);
  EXPECT_EQ(json["server"]["after"]["kv_pages_used"], 0);
  EXPECT_GT(json["server"]["after"]["rss_bytes"], 1e6);
}

TEST_F(LoadTest, OpenLoopKeepsItsRateAndReportsProfilesSeparately) {
  const Json json = LoadJson(*server_, {"--rate", "40", "--arrivals", "constant", "--duration", "1", "--warmup", "0.2",
                                        "--input-len", "8", "--output-len", "2", "--mix", "flash:bf16=3,math:fp32=1"});
  EXPECT_NEAR(json["sent"].get<double>(), 40, 1) << "those of the warm-up do not count";
  ASSERT_EQ(json["profiles"].size(), 2U);
  EXPECT_EQ(json["profiles"][0]["profile"], "flash:bf16");
  EXPECT_NEAR(json["profiles"][0]["completed"].get<double>(), 30, 2);
  EXPECT_NEAR(json["profiles"][1]["completed"].get<double>(), 10, 2);
  const std::string metrics = HttpGet(server_->http(), "/metrics");
  EXPECT_GE(MetricValue(metrics, "dunlin_requests_total{attention_backend=\"math\",precision=\"fp32\",status=\"OK\"}"),
            10);
}

TEST_F(LoadTest, CancelledRequestsAreCountedSeparatelyAndFreeTheirPages) {
  const Json by_tokens = LoadJson(*server_, {"--concurrency", "8", "--num-prompts", "32", "--output-len", "200",
                                             "--cancel-after", "3t", "--cancel-fraction", "0.5"});
  EXPECT_EQ(by_tokens["completed"].get<int>() + by_tokens["cancelled"].get<int>(), 32) << by_tokens["reasons"];
  EXPECT_GE(by_tokens["cancelled"], 8);
  EXPECT_GE(by_tokens["completed"], 4);
  const Json by_time =
      LoadJson(*server_, {"--concurrency", "8", "--num-prompts", "16", "--output-len", "400", "--cancel-after", "5ms"});
  EXPECT_EQ(by_time["cancelled"], 16) << by_time["reasons"];
  EXPECT_EQ(by_time["server"]["after"]["kv_pages_used"], 0);
}

// The same requests through both protocols.
TEST_F(LoadTest, ProtocolsSendTheSameWorkloadAndReportTheSameFigures) {
  const std::vector<std::string> workload = {"--concurrency", "4", "--num-prompts", "12", "--input-len", "16",
                                             "--output-len",  "8", "--seed",        "5"};
  const auto run = [&workload](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), workload.begin(), workload.end());
    return LoadJson(*server_, arguments);
  };
  const std::string ok = "dunlin_requests_total{attention_backend=\"math\",precision=\"fp32\",status=\"OK\"}";
  const double before = std::max(MetricValue(HttpGet(server_->http(), "/metrics"), ok), 0.0);
  const Json grpc = run({"--mix", "math:fp32=1"});
  const Json http = run({"--protocol", "openai", "--prompt-form", "tokens", "--vocab-size", "4096", "--token-ids",
                         "--mix", "math:fp32=1"});
  for (const auto& [key, value] : grpc.items()) EXPECT_TRUE(http.contains(key)) << key;
  for (const char* key :
       {"completed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests", "sent"}) {
    EXPECT_EQ(http[key], grpc[key]) << key;
  }
  EXPECT_EQ(http["total_output_tokens"], 12 * 8);
  EXPECT_EQ(http["profiles"][0]["profile"], "math:fp32");
  EXPECT_GT(http["mean_beyond_engine_ms"], 0);
  EXPECT_GT(http["client_cpu_us_per_token"], 0);
  EXPECT_EQ(http["server"]["growth"]["open_fds"], 0) << "connections are closed before the server's state is read";
  EXPECT_TRUE(ComesToMetric(server_->http(), ok, before + 24));
}

TEST_F(LoadTest, ChatsAreTheSamePromptsOverBothProtocols) {
  const std::vector<std::string> chat = {"--chat", "--num-prompts", "4", "--input-len", "8", "--output-len", "6"};
  const Json grpc = LoadJson(*server_, chat);
  std::vector<std::string> over_http = {"--protocol", "openai"};
  over_http.insert(over_http.end(), chat.begin(), chat.end());
  const Json http = LoadJson(*server_, over_http);
  EXPECT_EQ(grpc["completed"], 4) << grpc["reasons"];
  EXPECT_EQ(http["completed"], 4) << http["reasons"];
  EXPECT_EQ(http["total_input_tokens"], grpc["total_input_tokens"]);
  EXPECT_EQ(http["total_output_tokens"], 4 * 6);
}

TEST_F(LoadTest, StreamsCancelledOverHttpFreeTheirPages) {
  const Json json = LoadJson(*server_, {"--protocol", "openai", "--concurrency", "8", "--num-prompts", "16",
                                        "--output-len", "400", "--cancel-after", "3t"});
  EXPECT_EQ(json["cancelled"], 16) << json["reasons"];
  EXPECT_EQ(json["server"]["after"]["kv_pages_used"], 0);
  EXPECT_EQ(json["server"]["after"]["running"], 0);
}

TEST_F(LoadTest, FailedChecksSetTheExitStatus) {
  const std::vector<std::string> quick = {"--num-prompts", "3", "--output-len", "2", "--slo", "e2el_ms=60000"};
  const auto with = [&quick](std::vector<std::string> more) {
    more.insert(more.begin(), quick.begin(), quick.end());
    return Load(*server_, more);
  };
  EXPECT_EQ(with({"--check", "goodput_ratio>=1", "--check", "completed>=3"}).status, 0);
  const CommandResult missed = with({"--check", "p99_ttft_ms<=0.001"});
  EXPECT_EQ(missed.status, 1);
  EXPECT_THAT(missed.err, HasSubstr("limit is <= 0.001 (--check)"));
  const CommandResult failing = with({"--mix", "flash:bf16=1", "--input-len", "100000", "--max-errors", "0"});
  EXPECT_EQ(failing.status, 1);
  EXPECT_THAT(failing.err, HasSubstr("--max-errors"));
  EXPECT_THAT(failing.out, HasSubstr("INVALID_FIELD"));
  const CommandResult nothing = with({"--input-len", "100000"});
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("no request completed, and 3 failed"));
}

TEST_F(LoadTest, TheEnvironmentNamesTheServerOfTheGrpcProtocol) {
  ASSERT_EQ(setenv("DUNLIN_ADDRESS", server_->grpc().c_str(), 1), 0);
  const CommandResult grpc = RunDunlin({"load", "--model", "demo", "--num-prompts", "2", "--output-len", "2"});
  EXPECT_EQ(grpc.status, 0) << grpc.err;
  const CommandResult named =
      RunDunlin({"load", "--model", "demo", "--address", "127.0.0.1:1", "--connect-timeout-ms", "300"});
  EXPECT_THAT(named.err, HasSubstr("no connection to 127.0.0.1:1"));
  ASSERT_EQ(unsetenv("DUNLIN_ADDRESS"), 0);
}

TEST_F(LoadTest, FilesThatCannotBeWrittenAreRefusedBeforeTheRun) {
  for (const char* option : {"--json", "--report"}) {
    const CommandResult result = Load(*server_, {option, "/nowhere/result", "--duration", "600"});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(std::string(option) + ": cannot write /nowhere/result"));
  }
}

TEST_F(LoadTest, UsageErrorsAndServerErrorsHaveDifferentStatuses) {
  EXPECT_EQ(RunDunlin({"load"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--slo", "ttft=1"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--check", "x"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--mix", "flash"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--dataset", "jsonl"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--cancel-after", "5"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--chat", "--prompt-form", "tokens"}).status, 2);
  EXPECT_EQ(Load(*server_, {"--rate", "1", "--concurrency", "1"}).status, 2);
  const CommandResult unknown = RunDunlin({"load", "--address", server_->grpc(), "--model", "nothing"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND"));
}

TEST_F(LoadTest, HelpDefinesEveryFigure) {
  const CommandResult help = RunDunlin({"load", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"TTFT", "ITL", "TPOT", "E2E", "refusal", "send delay", "goodput", "beyond engine",
                           "load generator", "message with a token"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

TEST_F(LoadTest, ASweepFindsAKneeAndDrawsIt) {
  const std::string folder = "/tmp/dunlin_load_test_" + std::to_string(getpid());
  const std::string report = folder + "/report.html";
  std::filesystem::create_directory(folder);
  const Json json =
      LoadJson(*server_, {"--sweep", "--concurrency", "1", "--duration", "0.3", "--sweep-steps", "4", "--input-len",
                          "8", "--output-len", "8", "--report", report, "--charts", folder + "/charts"});
  EXPECT_GE(json["sweep"]["steps"].size(), 2U);
  EXPECT_TRUE(json["sweep"]["knee"].is_number());
  EXPECT_THAT(Contents(report), HasSubstr("TTFT against load"));
  for (const char* name : {"sweep_ttft", "sweep_throughput", "ttft_distribution", "timeline_tokens", "server_memory"}) {
    EXPECT_THAT(Contents(folder + "/charts/" + name + ".svg"), StartsWith("<svg ")) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(LoadAgainstAFullServer, RefusalsAreCountedByReasonWithRetryInfo) {
  const ServerProcess server(kDemo, {"--set", "scheduler.max_sequences=2", "--set", "scheduler.max_queued_requests=2"});
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::vector<std::vector<std::string>> protocols = {{}, {"--protocol", "openai"}};
  for (std::vector<std::string> arguments : protocols) {
    arguments.insert(arguments.end(),
                     {"--concurrency", "32", "--num-prompts", "200", "--output-len", "32", "--max-errors", "0"});
    const Json json = LoadJson(server, arguments);
    EXPECT_GT(json["refused"], 0);
    EXPECT_GT(json["completed"], 0);
    EXPECT_EQ(json["completed"].get<int>() + json["refused"].get<int>(), 200) << json["reasons"];
    ASSERT_EQ(json["reasons"].size(), 1U) << json["reasons"];
    EXPECT_EQ(json["reasons"][0]["reason"], "QUEUE_FULL");
    EXPECT_EQ(json["reasons"][0]["with_retry_info"], json["reasons"][0]["count"]);
    EXPECT_GT(json["p99_refusal_ms"], 0);
  }
}

TEST(LoadWithoutAServer, SaysSo) {
  for (const char* protocol : {"dunlin", "openai"}) {
    const CommandResult result = RunDunlin(
        {"load", "--protocol", protocol, "--address", "127.0.0.1:1", "--model", "demo", "--connect-timeout-ms", "300"});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("no connection to 127.0.0.1:1"));
  }
}

}  // namespace
}  // namespace dunlin::integration
