// SPDX-License-Identifier: Apache-2.0
// The binary end to end: the demo server, its client, ports, signals and exit statuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class ServeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(kDemo); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override { ASSERT_TRUE(server_->ready()) << server_->Log(); }

  static CommandResult Generate(std::vector<std::string> arguments) {
    std::vector<std::string> all = {"generate", "--address", server_->grpc(), "--model", "demo"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return RunDunlin(all);
  }

  static Json GenerateJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--json");
    const CommandResult result = Generate(arguments);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    return Json::parse(result.out, nullptr, false);
  }

  static ServerProcess* server_;
};

ServerProcess* ServeTest::server_ = nullptr;

TEST_F(ServeTest, EveryProfileRunsAndIsReported) {
  for (const std::string& precision : kernels::NamesOf(kernels::kPrecisionTable)) {
    for (const std::string& backend : kernels::NamesOf(kernels::kAttentionBackendTable)) {
      const Json json = GenerateJson({"--precision", precision, "--attention-backend", backend, "--max-tokens", "5",
                                      "--temperature", "0", "--ignore-eos", "The people"});
      EXPECT_EQ(json["execution"]["precision"], precision);
      EXPECT_EQ(json["execution"]["attention_backend"], backend);
      EXPECT_EQ(json["execution"]["device"], "cpu");
      EXPECT_EQ(json["execution"]["recipe"], std::string(precision) == "fp8" ? "per_token" : "");
      EXPECT_EQ(json["token_ids"].size(), 5U);
      EXPECT_EQ(json["finish"]["reason"], "length");
      EXPECT_FALSE(json["text"].get<std::string>().empty());
    }
  }
}

TEST_F(ServeTest, AutoTakesFlashAndTheFirstPrecision) {
  const Json json = GenerateJson({"--max-tokens", "1", "The"});
  EXPECT_EQ(json["execution"]["attention_backend"], "flash");
  EXPECT_EQ(json["execution"]["precision"], "bf16");
  EXPECT_EQ(json["execution"]["kv_dtype"], "bf16");
}

TEST_F(ServeTest, JsonHasTheFieldsThatScriptsRead) {
  const Json json = GenerateJson({"--max-tokens", "4", "--seed", "5", "--logprobs", "2", "--prompt-logprobs", "1",
                                  "--request-id", "mine", "It was a long"});
  ASSERT_EQ(json["logprobs"].size(), 4U);
  EXPECT_EQ(json["logprobs"][0]["top"].size(), 2U);
  EXPECT_EQ(json["logprobs"][0]["token_id"], json["token_ids"][0]);
  EXPECT_EQ(json["prompt_logprobs"].size(), json["finish"]["prompt_tokens"].get<size_t>() - 1);
  EXPECT_EQ(json["request_id"], "mine");
  for (const char* key :
       {"reason", "prompt_tokens", "cached_tokens", "completion_tokens", "queue_ms", "ttft_ms", "total_ms"}) {
    EXPECT_TRUE(json["finish"].contains(key)) << key;
  }
}

TEST_F(ServeTest, PrefixHitsAreCountedAndChangeNothing) {
  std::string prompt = "A prefix long enough to fill several pages of the cache:";
  for (int i = 0; i < 8; ++i) prompt += " and so the story of the sea went on and on";
  const std::vector<std::string> arguments = {"--max-tokens", "8", "--temperature", "0", "--logprobs", "0", prompt};
  const Json cold = GenerateJson(arguments);
  const Json warm = GenerateJson(arguments);
  EXPECT_EQ(cold["finish"]["cached_tokens"], 0);
  EXPECT_GT(warm["finish"]["cached_tokens"].get<int>(), 16);
  EXPECT_EQ(cold["token_ids"], warm["token_ids"]);
  EXPECT_EQ(cold["logprobs"], warm["logprobs"]);
  std::vector<std::string> salted = arguments;
  salted.insert(salted.end(), {"--cache-salt", "other"});
  EXPECT_EQ(GenerateJson(salted)["finish"]["cached_tokens"], 0) << "salts do not share";
}

TEST_F(ServeTest, TheOnlyModelNeedsNoNameAndAWrongNameIsToldOfIt) {
  const CommandResult unnamed = RunDunlin({"generate", "--address", server_->grpc(), "--max-tokens", "2", "The"});
  EXPECT_EQ(unnamed.status, 0) << unnamed.err;
  const CommandResult wrong = RunDunlin({"generate", "--address", server_->grpc(), "--model", "gpt-4", "The"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err, "NOT_FOUND: model \"gpt-4\" is not served; the server has demo\n");
}

TEST_F(ServeTest, AddressesThatAreNoneOfAGrpcPortAreRefusedInWords) {
  for (const std::string& address : {"http://" + server_->grpc(), std::string("127.0.0.1")}) {
    const CommandResult result = RunDunlin({"generate", "--address", address, "The"});
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.err,
              "--address is " + address + "; limit is HOST:PORT of the server's gRPC port, 127.0.0.1:50051\n");
  }
  const CommandResult http = RunDunlin({"generate", "--address", server_->http(), "The"});
  EXPECT_EQ(http.status, 1);
  EXPECT_THAT(http.err, HasSubstr("; --address is the server's gRPC port, not its HTTP port"));
}

TEST_F(ServeTest, APromptComesFromTheStandardInput) {
  const CommandResult result = RunDunlinWithInput(
      {"generate", "--address", server_->grpc(), "--max-tokens", "2", "--echo", "--prompt-file", "-"}, "The people");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.substr(0, 10), "The people");
}

TEST_F(ServeTest, RefusalsExitWithOneAndExplain) {
  const CommandResult result = Generate({"--json", "--top-p", "1.5", "x"});
  EXPECT_EQ(result.status, 1);
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(json["error"]["code"], "INVALID_ARGUMENT") << result.out;
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("sampling.top_p is 1.5"));
  EXPECT_THAT(json["error"]["details"].dump(), HasSubstr("google.rpc.BadRequest"));
}

TEST_F(ServeTest, UsageErrorsExitWithTwo) {
  EXPECT_EQ(RunDunlin({}).status, 2);
  EXPECT_EQ(RunDunlin({"fly"}).status, 2);
  EXPECT_EQ(RunDunlin({"embed", "x"}).status, 2) << "no model";
  EXPECT_EQ(Generate({"--precision", "int3", "x"}).status, 2);
  EXPECT_EQ(Generate({}).status, 2) << "no prompt";
}

TEST_F(ServeTest, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"serve", "generate", "inspect", "healthcheck", "schema"}) {
    const CommandResult result = RunDunlin({command, "--help"});
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Example")) << command;
  }
}

TEST_F(ServeTest, HealthcheckKnowsEveryService) {
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server_->grpc()}).status, 0);
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server_->grpc(), "--service", "dunlin.v1.GenerationService"}).status,
            0);
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server_->grpc(), "--service", "nope"}).status, 1);
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", "127.0.0.1:1", "--timeout-ms", "500"}).status, 1);
}

TEST_F(ServeTest, ProbesAndMetricsAnswer) {
  EXPECT_EQ(HttpGet(server_->http(), "/healthz"), "ok\n");
  EXPECT_EQ(HttpGet(server_->http(), "/readyz"), "ok\n");
  EXPECT_EQ(MetricValue(HttpGet(server_->http(), "/metrics"), "dunlin_ready"), 1);
  const std::string ok = R"(dunlin_requests_total{attention_backend="math",precision="fp16",status="OK"})";
  const double before = MetricValue(HttpGet(server_->http(), "/metrics"), ok);
  GenerateJson({"--attention-backend", "math", "--precision", "fp16", "--max-tokens", "2", "The"});
  EXPECT_TRUE(ComesToMetric(server_->http(), ok, std::max(before, 0.0) + 1));
}

// A request's line is written after its response.
TEST_F(ServeTest, PromptsAreNotLogged) {
  GenerateJson({"--max-tokens", "2", "--request-id", "canary-request", "canarywordneverlogged"});
  EXPECT_TRUE(ComesToLog(*server_, "id=\"canary-request\" model=\"demo\" profile=cpu/flash/bf16")) << server_->Log();
  EXPECT_THAT(server_->Log(), testing::Not(HasSubstr("canarywordneverlogged")));
}

struct BadStart {
  std::vector<std::string> arguments;
  const char* message;
};

TEST(Serve, SighupAppliesReloadableKeysAndKeepsServing) {
  const std::string path = "/tmp/dunlin_reload_" + std::to_string(getpid()) + ".json";
  Json config = Json::parse(std::ifstream(kDemo), nullptr, true, /*ignore_comments=*/true);
  config["models"][0]["path"] = DUNLIN_SOURCE_DIR "/models/demo";
  const auto reload = [&](const ServerProcess& server, const std::string& text) {
    std::ofstream(path) << text;
    server.Signal(SIGHUP);
  };
  std::ofstream(path) << config;
  const ServerProcess server(path, {"--set", "scheduler.max_sequences=2"});
  ASSERT_TRUE(server.ready()) << server.Log();

  config["log"]["level"] = "debug";
  config["limits"]["max_concurrent_requests"] = 1;
  reload(server, config.dump());
  EXPECT_TRUE(ComesToLog(server, "reload: applied: log.level")) << server.Log();
  EXPECT_TRUE(ComesToLog(server, "reload: restart required for: limits.max_concurrent_requests")) << server.Log();
  EXPECT_EQ(server.Log().find("max_sequences"), std::string::npos) << "--set stays what it is";

  reload(server, "{");
  EXPECT_TRUE(ComesToLog(server, "reload: failed, config unchanged: config")) << server.Log();
  EXPECT_EQ(RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--max-tokens", "2", "a"}).status, 0);
  std::remove(path.c_str());
}

TEST(Serve, RefusesToStartWithAReason) {
  const std::string models = DUNLIN_SOURCE_DIR "/models";
  const BadStart starts[] = {
      {{"--set", "listen.grcp=1"}, "listen.grcp is not a config key"},
      {{"--set", "models.0.path=" + models + "/none"}, "model \"demo\""},
      {{"--set", "models.0.device=cuda"}, "device cuda cannot be opened"},
      {{"--set", "compute.cpu_variant=avx10"}, "compute.cpu_variant is \"avx10\""},
      {{"--set", "listen.grpc=256.0.0.1:x"}, "listen.grpc"},
      {{"--set", "listen.grpc=127.0.0.1:99999"}, "cannot listen on 127.0.0.1:99999: the port is not in [0, 65535]"},
      {{"--set", "listen.http=127.0.0.1:99999"}, "listen.http is \"127.0.0.1:99999\"; limit is IP:PORT"},
      {{"--set", "attention.enable_flash=false", "--set", "attention.enable_math=false", "--set",
        "attention.enable_efficient=false"},
       "attention.enable_"},
      {{"--set", "models.0.fp8.recipe=delayed"}, "models[].fp8.recipe is delayed"},
      {{"--set", "models.0.fp8.recipe=current"}, "models[].deterministic is true"},
      {{"--set", "models.0.fp8.recipe=static"}, "models[].fp8.recipe is static"},
  };
  for (const BadStart& start : starts) {
    std::vector<std::string> arguments = {"serve", "--config", kDemo, "--set", "listen.http=127.0.0.1:0"};
    if (start.arguments[1].rfind("listen.grpc=", 0) != 0)
      arguments.insert(arguments.end(), {"--set", "listen.grpc=127.0.0.1:0"});
    arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
    const CommandResult result = RunDunlin(arguments, 20);
    EXPECT_EQ(result.status, 1) << start.message;
    EXPECT_THAT(result.err, HasSubstr(start.message));
    EXPECT_EQ(result.out, "") << "no READY";
  }
}

// It would wait until somebody writes, and a start under a service manager for ever.
TEST(Serve, DoesNotWaitForAPipeInAFilesPlace) {
  const std::string pipe = "/tmp/dunlin_serve_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string no_file = pipe + ": is a pipe, not a regular file";
  const BadStart starts[] = {
      {{"--config", pipe}, no_file.c_str()},
      {{"--config", kDemo, "--set", "models.0.chat_template=" + pipe}, no_file.c_str()},
      {{"--config", kDemo, "--set", "tls.cert_file=" + pipe, "--set", "tls.key_file=" + pipe}, no_file.c_str()},
      {{"--config", kDemo, "--set", "access.keys_file=" + pipe}, "not a regular file"},
      {{"--config", kDemo, "--set", "models.0.path=" + pipe}, pipe.c_str()},
  };
  for (const BadStart& start : starts) {
    std::vector<std::string> arguments = {"serve", "--set", "listen.http=127.0.0.1:0", "--set",
                                          "listen.grpc=127.0.0.1:0"};
    arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
    const CommandResult result = RunDunlin(arguments, 20);
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(start.message));
  }
  std::remove(pipe.c_str());
}

TEST(Serve, OnASocketOfTheFileSystemReadyHasItsPath) {
  const std::string address = "unix:/tmp/dunlin_serve_test_" + std::to_string(getpid());
  const ServerProcess server(
      ServerProcess::Arguments{{DUNLIN_SOURCE_DIR "/models/demo", "--grpc", address, "--http", "127.0.0.1:0"}});
  ASSERT_EQ(server.grpc(), address) << server.Log();
  EXPECT_EQ(RunDunlin({"generate", "--address", address, "--model", "demo", "--max-tokens", "2", "a"}).status, 0);
  std::remove(address.c_str() + address.find('/'));
}

TEST(Serve, RecipesOfNeighboursServeWhenAskedForAndSaySo) {
  for (const std::string recipe : {"current", "delayed"}) {
    ServerProcess server(kDemo, {"--set", "models.0.fp8.recipe=" + recipe, "--set", "models.0.deterministic=false"});
    ASSERT_TRUE(server.ready()) << server.Log();
    std::string prompt = "The history of the world as";
    for (int i = 0; i < 8; ++i) prompt += " it was told and so the story went on and on";
    for (int i = 0; i < 4; ++i) {
      const bool fp8 = i < 2;
      const CommandResult result = RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--precision",
                                              fp8 ? "fp8" : "bf16", "--max-tokens", "3", "--json", prompt});
      ASSERT_EQ(result.status, 0) << result.out << result.err;
      const Json json = Json::parse(result.out, nullptr, false);
      EXPECT_EQ(json["execution"]["recipe"], fp8 ? recipe : "");
      const int cached = json["finish"]["cached_tokens"].get<int>();
      EXPECT_EQ(cached > 0, i == 3) << "the prompt is long enough for the cache, which these recipes must not use";
    }
  }
}

TEST(Serve, Fp8KvIsOfFp8RequestsAndSaysSo) {
  ServerProcess server(kDemo, {"--set", "models.0.kv_cache.fp8=true"});
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::pair<const char*, const char*> kv_dtypes[] = {
      {"fp8", "fp8_e4m3"}, {"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}};
  for (const auto& [precision, kv_dtype] : kv_dtypes) {
    const CommandResult result =
        RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--precision", precision, "--max-tokens",
                   "4", "--ignore-eos", "--json", "The history of the world as"});
    ASSERT_EQ(result.status, 0) << result.out << result.err;
    const Json json = Json::parse(result.out, nullptr, false);
    EXPECT_EQ(json["execution"]["kv_dtype"], kv_dtype);
    EXPECT_EQ(json["token_ids"].size(), 4U);
  }
}

TEST(Serve, EagerExecutionGivesTheBitsOfFused) {
  Json logprobs[2];
  for (const bool eager : {false, true}) {
    ServerProcess server(kDemo, {"--set", std::string("models.0.execution=") + (eager ? "eager" : "fused")});
    ASSERT_TRUE(server.ready()) << server.Log();
    for (const std::string& precision : kernels::NamesOf(kernels::kPrecisionTable)) {
      const CommandResult result =
          RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--precision", precision,
                     "--max-tokens", "12", "--seed", "3", "--logprobs", "2", "--json", "Once there was a king"});
      ASSERT_EQ(result.status, 0) << result.out << result.err;
      logprobs[eager ? 1 : 0].push_back(Json::parse(result.out, nullptr, false)["logprobs"]);
    }
  }
  EXPECT_EQ(logprobs[0], logprobs[1]);
}

TEST(Serve, ForcedVariantsServe) {
  ServerProcess server(kDemo, {"--set", "compute.cpu_variant=portable"});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("portable"));
  EXPECT_EQ(RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--max-tokens", "3", "The"}).status,
            0);
}

TEST(Inspect, ListsProfilesWithReasons) {
  const CommandResult result = RunDunlin({"inspect", DUNLIN_SOURCE_DIR "/models/demo", "--json"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(json["architecture"], "gpt2");
  EXPECT_GT(json["parameters"].get<int64_t>(), 1000000);
  EXPECT_GT(json["weights_bytes"]["fp32"].get<int64_t>(), json["weights_bytes"]["bf16"].get<int64_t>());
  EXPECT_EQ(json["kv_bytes_per_token"]["fp32"].get<int64_t>(), 2 * json["kv_bytes_per_token"]["bf16"].get<int64_t>());
  EXPECT_LT(json["kv_bytes_per_token"]["fp8_e4m3"].get<int64_t>(), json["kv_bytes_per_token"]["bf16"].get<int64_t>());
  int supported = 0;
  for (const Json& row : json["profiles"]) {
    supported += row["supported"].get<bool>() ? 1 : 0;
    EXPECT_EQ(row["supported"].get<bool>(), row["reasons"].empty()) << row;
  }
  EXPECT_EQ(supported, 18);
  EXPECT_EQ(RunDunlin({"inspect", "/nowhere", "--json"}).status, 1);
  const std::string table = RunDunlin({"inspect", DUNLIN_SOURCE_DIR "/models/demo"}).out;
  EXPECT_THAT(table, HasSubstr("\ncpu     flash      fp32       yes\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("\nweights_bytes +[0-9]+ +[0-9.]+ MiB\n"));
  EXPECT_THAT(table, HasSubstr("\nkv_contexts          64\n"));
}

TEST(Schema, IsTheOneInTheTree) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/configs/schema.json");
  EXPECT_EQ(Json::parse(RunDunlin({"schema"}).out, nullptr, false), Json::parse(file, nullptr, false));
}

}  // namespace
}  // namespace dunlin::integration
