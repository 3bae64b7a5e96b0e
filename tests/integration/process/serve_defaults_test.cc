// SPDX-License-Identifier: Apache-2.0
// `dunlin serve DIR` without a config, and what its defaults promise: KV memory that fits, memory as planned, requests
// that are not refused for sizes that nobody chose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::string kDemoDir = DUNLIN_SOURCE_DIR "/models/demo";
const std::vector<std::string> kFreePorts = {"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"};

ServerProcess::Arguments Serving(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kFreePorts.begin(), kFreePorts.end());
  return {arguments};
}

Json GenerateWith(const ServerProcess& server, const std::string& model, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"generate", "--address", server.grpc(), "--model", model, "--json"});
  const CommandResult result = RunDunlin(arguments);
  Json json = Json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result.out << result.err;
  return json;
}

double Metric(const ServerProcess& server, const std::string& series) {
  return MetricValue(HttpGet(server.http(), "/metrics"), series);
}

// The first number after `words` in a log; -1 if there is none.
double NumberAfter(const std::string& log, const std::string& words) {
  const size_t at = log.find(words);
  return at == std::string::npos ? -1 : std::atof(log.c_str() + at + words.size());
}

// Bytes; "VmHWM" is the most that was ever resident.
double BytesOf(const ServerProcess& server, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(server.pid()) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) return 1024 * std::atof(line.c_str() + name.size() + 1);
  }
  return -1;
}

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~EnvironmentVariable() { unsetenv(name_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
};

class TempFolder {
 public:
  TempFolder() { std::filesystem::create_directories(path_); }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  const std::string path_ = testing::TempDir() + "dunlin_serve_" + std::to_string(getpid());
};

TEST(ServeDirectory, NeedsNoConfig) {
  const ServerProcess server(Serving({kDemoDir + "/"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  const Json json = GenerateWith(server, "demo", {"--max-tokens", "3", "--ignore-eos", "The"});
  EXPECT_EQ(json["token_ids"].size(), 3U) << json;
  EXPECT_EQ(json["execution"]["precision"], "bf16");
  EXPECT_THAT(server.Log(), HasSubstr("memory plan: model \"demo\": weights "));
}

TEST(ServeDirectory, ServesSeveralUnderTheirNamesAndPrecisions) {
  const ServerProcess server(Serving({kDemoDir, kDemoDir, "--name", "one", "--name", "two", "--precision", "fp8,bf16",
                                      "--precision", "fp16", "--set", "scheduler.max_sequences=2"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(GenerateWith(server, "one", {"--max-tokens", "1", "The"})["execution"]["precision"], "fp8");
  EXPECT_EQ(GenerateWith(server, "two", {"--max-tokens", "1", "The"})["execution"]["precision"], "fp16");
  EXPECT_EQ(Metric(server, R"(dunlin_kv_pages_total{model_name="one"})"), 128) << "two contexts of 64 pages";
}

TEST(ServeDirectory, ServesASnapshotOfTheHubsCache) {
  const TempFolder folder;
  const std::string repository = folder / "models--org--demo";
  for (const char* name : {"/blobs", "/snapshots/1f2e"}) std::filesystem::create_directories(repository + name);
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}) {
    std::filesystem::copy_file(kDemoDir + "/" + file, repository + "/blobs/" + file);
    std::filesystem::create_symlink(std::string("../../blobs/") + file, repository + "/snapshots/1f2e/" + file);
  }
  const ServerProcess server(Serving({repository + "/snapshots/1f2e"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(GenerateWith(server, "demo", {"--max-tokens", "2", "--ignore-eos", "The"})["token_ids"].size(), 2U);
}

struct Refusal {
  std::vector<std::string> arguments;
  int status;
  std::string message;
};

TEST(ServeDirectory, RefusesWithWhatIsMissing) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "half");
  std::filesystem::copy_file(kDemoDir + "/config.json", folder / "half/config.json");
  std::ofstream(folder / "half/pytorch_model.bin") << "x";
  std::filesystem::create_directories(folder / "hub/snapshots/1f2e");
  std::filesystem::create_directories(folder / "files");
  std::ofstream(folder / "files/b.gguf") << "GGUF";
  std::ofstream(folder / "files/a.gguf") << "GGUF";
  const Refusal refusals[] = {
      {{}, 2, "give a model directory, or --config FILE"},
      {{kDemoDir, "--config", "x.json"}, 2, "not both"},
      {{kDemoDir, kDemoDir, "--name", "a"}, 2, "--name is given 1 times for 2 directories"},
      {{kDemoDir, "--precision", "bf16", "--precision", "fp8"}, 2, "--precision is given 2 times for 1 directories"},
      {{"--config", "x.json", "--name", "a"}, 2, "--name is for model directories"},
      {{kDemoDir, kDemoDir}, 1, "would both be named \"demo\""},
      {{"/nowhere"}, 1, "/nowhere does not exist"},
      {{kDemoDir + "/config.json"}, 1, "is not a directory"},
      {{DUNLIN_SOURCE_DIR "/docs"}, 1, "is not a model directory: config.json and *.safetensors are missing"},
      {{folder / "files"}, 1, "missing; a GGUF file is served by its own path, " + folder / "files/a.gguf"},
      {{folder / "hub"}, 1, "are missing; a snapshot is one, " + folder / "hub/snapshots/1f2e"},
      {{"org/name"}, 1, "org/name does not exist; nothing is downloaded: `hf download org/name` prints a directory"},
      {{folder / "half"}, 1, "pytorch_model.bin: is no file of torch.save: it is no zip archive"},
      {{kDemoDir, "--precision", "int3"}, 1, "models[0].precisions[0] is \"int3\""},
      {{kDemoDir, "--set", "memory.limit_bytes=40000000"}, 1, "the memory plan does not fit: model \"demo\": weights "},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> arguments = {"serve"};
    arguments.insert(arguments.end(), refusal.arguments.begin(), refusal.arguments.end());
    arguments.insert(arguments.end(), kFreePorts.begin(), kFreePorts.end());
    const CommandResult result = RunDunlin(arguments);
    EXPECT_EQ(result.status, refusal.status) << refusal.message << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(refusal.message));
    EXPECT_EQ(result.out, "");
  }
}

TEST(ServeDirectory, TakesWhatTheCommandLineLeavesOutFromTheEnvironment) {
  const EnvironmentVariable models("DUNLIN_MODELS", kDemoDir + ";" + kDemoDir);
  const EnvironmentVariable names("DUNLIN_NAME", "a;b");
  const EnvironmentVariable precision("DUNLIN_PRECISION", "fp16,bf16");
  const EnvironmentVariable config("DUNLIN_CONFIG", "/nowhere.json");
  const EnvironmentVariable grpc("DUNLIN_GRPC", "127.0.0.1:0");
  const EnvironmentVariable http("DUNLIN_HTTP", "127.0.0.1:0");
  const EnvironmentVariable set("DUNLIN_SET", "scheduler.max_sequences=2;log.level=debug");
  {
    const ServerProcess server(ServerProcess::Arguments{});
    ASSERT_TRUE(server.ready()) << server.Log();
    EXPECT_EQ(GenerateWith(server, "b", {"--max-tokens", "1", "The"})["execution"]["precision"], "fp16");
  }
  const Json printed = Json::parse(RunDunlin({"config", kDemoDir, "--name", "c", "--precision", "fp32"}).out);
  EXPECT_EQ(printed["models"].size(), 1U) << "the command line comes first";
  EXPECT_EQ(printed["models"][0]["name"], "c");
  EXPECT_EQ(printed["models"][0]["precisions"], Json::parse(R"(["fp32"])"));
  EXPECT_EQ(printed["listen"]["grpc"], "127.0.0.1:0");
  EXPECT_EQ(printed["scheduler"]["max_sequences"], 2);
  EXPECT_THAT(RunDunlin({"serve", "--help"}).out, HasSubstr("DUNLIN_SET"));
}

TEST(ConfigCommand, PrintsAConfigThatServes) {
  const TempFolder folder;
  const CommandResult printed = RunDunlin({"config", kDemoDir, "--precision", "fp8", "--name", "mine"});
  ASSERT_EQ(printed.status, 0) << printed.err;
  const Json json = Json::parse(printed.out);
  EXPECT_EQ(json["models"][0]["kv_cache"]["memory_bytes"], "auto");
  std::ofstream(folder / "config.json") << printed.out;
  const ServerProcess server(folder / "config.json", {});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(GenerateWith(server, "mine", {"--max-tokens", "1", "The"})["execution"]["precision"], "fp8");
  EXPECT_EQ(RunDunlin({"config", "/nowhere"}).status, 1);
  EXPECT_EQ(RunDunlin({"config"}).status, 2);
}

TEST(FirstSteps, AreSaidToWhoeverCallsTheBinaryAlone) {
  const CommandResult result = RunDunlin({});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  for (const char* words : {"dunlin serve DIR", "dunlin generate", "dunlin --help"}) {
    EXPECT_THAT(result.err, HasSubstr(words));
  }
}

TEST(FirstSteps, AWordThatIsNoCommandIsNamed) {
  const CommandResult result = RunDunlin({"serv", "models/demo"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "serv is not a command; dunlin --help lists every command\n");
}

TEST(Memory, StaysWithinThreePercentOfThePlanUnderLoad) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
  const ServerProcess server(Serving({kDemoDir}));
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::string log = server.Log();
  std::smatch match;
  ASSERT_TRUE(std::regex_search(log, match, std::regex(R"(memory plan: models .*: (\d+) bytes of)"))) << log;
  const double planned = std::stod(match[1]);
  EXPECT_LE(BytesOf(server, "VmHWM"), planned);
  const CommandResult load = RunDunlin({"load", "--address", server.grpc(), "--model", "demo", "--concurrency", "64",
                                        "--num-prompts", "128", "--input-len", "48", "--output-len", "32"});
  ASSERT_EQ(load.status, 0) << load.out << load.err;
  ASSERT_TRUE(PoolIsBacked(server.http(), "demo"));
  const double most = BytesOf(server, "VmHWM");
  EXPECT_LE(most, 1.03 * planned) << "more than planned";
  EXPECT_GE(most, 0.95 * planned) << "planned for nothing: " << log;
}

TEST(Memory, IsPlannedByInspectAsByServe) {
  const CommandResult result = RunDunlin({"inspect", kDemoDir, "--precision", "bf16", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json memory = Json::parse(result.out)["memory"];
  const ServerProcess server(Serving({kDemoDir}));
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::string log = server.Log();
  EXPECT_EQ(memory["weights_bytes"].get<double>(), NumberAfter(log, "model \"demo\": weights ")) << log;
  EXPECT_EQ(memory["kv_bytes"].get<double>(), NumberAfter(log, ", KV "));
  EXPECT_EQ(memory["workspace_bytes"].get<double>(), NumberAfter(log, "workspace "));
  EXPECT_EQ(memory["streams_bytes"].get<double>(), NumberAfter(log, "streams "));
  EXPECT_GT(memory["total_bytes"].get<double>(), memory["kv_bytes"].get<double>());
  EXPECT_EQ(RunDunlin({"inspect", kDemoDir, "--precision", "int3"}).status, 1);
  EXPECT_THAT(RunDunlin({"inspect", "--shape", "llama-8b"}).out, HasSubstr("memory of `dunlin serve`"));
}

TEST(Requests, WithoutMaxTokensAreNotRefusedForTheSizeOfThePool) {
  // 14 pages of 16 tokens: fewer than limits.default_max_tokens.
  const ServerProcess server(Serving({kDemoDir, "--set", "models.0.kv_cache.memory_bytes=1048576"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  const Json json = GenerateWith(server, "demo", {"--ignore-eos", "--temperature", "0", "The history of"});
  ASSERT_TRUE(json.contains("finish")) << json;
  EXPECT_EQ(json["finish"]["reason"], "length");
  EXPECT_EQ(json["finish"]["prompt_tokens"].get<int>() + json["finish"]["completion_tokens"].get<int>(), 14 * 16 + 1);
  EXPECT_EQ(GenerateWith(server, "demo", {"--max-tokens", "300", "The"})["error"]["code"], "INVALID_ARGUMENT")
      << "a wish that cannot be met is still refused";
}

TEST(Checkpoints, KvScalesAreIgnoredByName) {
  const std::string model = DUNLIN_SOURCE_DIR "/tests/golden/fp8/modelopt";
  const std::string words = "k_proj.k_scale and ";
  const Json warnings = Json::parse(RunDunlin({"inspect", model, "--json"}).out)["warnings"];
  EXPECT_THAT(warnings.dump(), HasSubstr(words));
  const ServerProcess server(Serving({model, "--precision", "fp8", "--set", "models.0.kv_cache.fp8=true"}));
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr(words));
  EXPECT_THAT(server.Log(), HasSubstr("more KV scales ignored: E4M3 KV pages have a scale per token and head"));
}

TEST(Metrics, NamesOfAnyAllowedLengthKeepTheirSeries) {
  const std::string name = "a \"quoted\" back\\slash " + std::string(106, 'x');
  ASSERT_EQ(name.size(), 128U);
  const std::string label = "a \\\"quoted\\\" back\\\\slash " + std::string(106, 'x');
  const ServerProcess server(Serving({kDemoDir, "--name", name}));
  ASSERT_TRUE(server.ready()) << server.Log();
  ASSERT_TRUE(GenerateWith(server, name, {"--max-tokens", "2", "--ignore-eos", "The"}).contains("finish"));
  const std::string counted = "vllm:request_generation_tokens_count{model_name=\"" + label + "\"}";
  EXPECT_TRUE(ComesToMetric(server.http(), counted, 1));
  const std::string metrics = HttpGet(server.http(), "/metrics");
  EXPECT_EQ(MetricValue(metrics, "vllm:e2e_request_latency_seconds_count{model_name=\"" + label + "\"}"), 1);
  EXPECT_GT(MetricValue(metrics, "dunlin_engine_steps_total{model_name=\"" + label + "\"}"), 0);
  EXPECT_EQ(RunDunlin({"serve", kDemoDir, "--name", name + "x"}).status, 1) << "129 bytes";
}

TEST(Requests, ExtremeEditsOfLogitsAreNoFaultOfTheServer) {
  const ServerProcess server(Serving({kDemoDir}));
  ASSERT_TRUE(server.ready()) << server.Log();
  for (const char* penalty : {"1.2e-38", "1e-30", "10"}) {
    for (const char* temperature : {"0", "1"}) {
      const Json json = GenerateWith(server, "demo",
                                     {"--repetition-penalty", penalty, "--temperature", temperature, "--max-tokens",
                                      "8", "--ignore-eos", "The people of the"});
      EXPECT_EQ(json["token_ids"].size(), 8U) << penalty << " " << json;
    }
  }
  EXPECT_EQ(GenerateWith(server, "demo", {"--repetition-penalty", "1e-39", "x"})["error"]["code"], "INVALID_ARGUMENT");
  const std::string metrics = HttpGet(server.http(), "/metrics");
  EXPECT_EQ(metrics.find("status=\"INTERNAL\""), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("NUMERICAL"), std::string::npos);
}

}  // namespace
}  // namespace dunlin::integration
