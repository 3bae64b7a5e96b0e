// SPDX-License-Identifier: Apache-2.0
// An encoder end to end: inspect, serve, embed, metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::string kEncoder = DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_sentence";

class EmbedCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new ServerProcess(kDemo, {"--set", "models.0.path=" + kEncoder, "--set", "models.0.name=encoder", "--set",
                                        "scheduler.max_tokens_per_step=64"});
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override { ASSERT_TRUE(server_->ready()) << server_->Log(); }

  static CommandResult Embed(std::vector<std::string> arguments) {
    std::vector<std::string> all = {"embed", "--address", server_->grpc(), "--model", "encoder"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return RunDunlin(all);
  }
  static Json EmbedJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--json");
    const CommandResult result = Embed(arguments);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    return Json::parse(result.out, nullptr, false);
  }

  static ServerProcess* server_;
};

ServerProcess* EmbedCommand::server_ = nullptr;

TEST_F(EmbedCommand, EveryProfileRunsSaysSoAndIsCounted) {
  for (const std::string& precision : kernels::NamesOf(kernels::kPrecisionTable)) {
    for (const std::string& backend : kernels::NamesOf(kernels::kAttentionBackendTable)) {
      const Json json = EmbedJson(
          {"--precision", precision, "--attention-backend", backend, "A dunlin flies.", "Dunlins fly in a flock."});
      EXPECT_EQ(json["execution"]["precision"], precision);
      EXPECT_EQ(json["execution"]["attention_backend"], backend);
      EXPECT_EQ(json["execution"]["recipe"], std::string(precision) == "fp8" ? "per_token" : "");
      EXPECT_EQ(json["pooling"], "cls");
      EXPECT_EQ(json["normalized"], true);
      ASSERT_EQ(json["embeddings"].size(), 2U);
      double squares = 0.0;
      for (const double value : json["embeddings"][1]["values"].get<std::vector<double>>()) squares += value * value;
      EXPECT_NEAR(squares, 1.0, 1e-5);
    }
  }
  // A call is counted after its response has been sent.
  const std::string last = R"(dunlin_requests_total{attention_backend="efficient",precision="fp8",status="OK"})";
  std::string metrics;
  for (int i = 0; i < 200 && MetricValue(metrics, last) != 1.0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    metrics = HttpGet(server_->http(), "/metrics");
  }
  EXPECT_EQ(MetricValue(metrics, last), 1.0);
  EXPECT_EQ(MetricValue(metrics, R"(dunlin_embedding_inputs_sum{model_name="encoder"})"), 36.0);
  EXPECT_GT(MetricValue(metrics, R"(vllm:prompt_tokens_total{model_name="encoder"})"), 24.0);
}

TEST_F(EmbedCommand, PrintsOneLinePerVector) {
  const CommandResult result = Embed({"--dimensions", "3", "--pooling", "mean", "--no-normalize", "one", "two"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), ' '), 4);
}

TEST_F(EmbedCommand, RefusalsExitWithOneAndExplain) {
  const CommandResult result = Embed({"--json", "--dimensions", "99", "x"});
  EXPECT_EQ(result.status, 1);
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(json["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("dimensions is 99; limit is [1, 36]"));
  EXPECT_EQ(Embed({}).status, 2);
  const CommandResult generate =
      RunDunlin({"generate", "--address", server_->grpc(), "--model", "encoder", "--json", "x"});
  EXPECT_EQ(generate.status, 1);
  EXPECT_THAT(generate.out, HasSubstr("model is an encoder (bert)"));
}

TEST_F(EmbedCommand, InspectShowsTheEncoder) {
  const CommandResult result = RunDunlin({"inspect", kEncoder, "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(json["architecture"], "bert");
  EXPECT_EQ(json["kind"], "encoder");
  EXPECT_FALSE(json.contains("kv_bytes_per_token"));
  EXPECT_EQ(json["embedding"]["pooling"], "cls");
  EXPECT_EQ(json["embedding"]["normalize"], true);
  EXPECT_EQ(json["embedding"]["dimensions"], 36);
  int supported = 0;
  for (const Json& row : json["profiles"]) supported += row["supported"] == true ? 1 : 0;
  EXPECT_GE(supported, 12);
}

}  // namespace
}  // namespace dunlin::integration
