// SPDX-License-Identifier: Apache-2.0
// `"device": "cuda"` end to end, on the fake module: its device memory faults when the host touches it, its results are
// the CPU's, so that what the engine and the edge make of a device of its own can be seen without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::_;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Pair;
using Clock = std::chrono::steady_clock;

std::string Module(const std::string& name) {
  return "compute.cuda_module=" + std::string(DUNLIN_MODULE_DIR) + "/lib" + name + ".so";
}

std::vector<std::string> OnDevice(const std::string& device, const std::string& module = "fake_cuda") {
  return {"--set", "models.0.device=" + device, "--set", Module(module)};
}

CommandResult RunGenerateJson(const ServerProcess& server, std::vector<std::string> arguments) {
  std::vector<std::string> all = {"generate", "--address", server.grpc(), "--model", "demo", "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunDunlin(all);
}

Json GenerateJson(const ServerProcess& server, const std::vector<std::string>& arguments) {
  const CommandResult result = RunGenerateJson(server, arguments);
  EXPECT_EQ(result.status, 0) << result.out << result.err << server.Log();
  return Json::parse(result.out, nullptr, false);
}

// Every profile that the fake offers, with everything that comes back from a device: logits, scores, sampled tokens.
Json Answers(const ServerProcess& server) {
  Json answers;
  for (const std::string& precision : kernels::NamesOf(kernels::kPrecisionTable)) {
    for (const std::string& backend : kernels::NamesOf(kernels::kAttentionBackendTable)) {
      if (precision == "fp32" && backend == "flash") continue;
      const Json json = GenerateJson(
          server, {"--precision", precision, "--attention-backend", backend, "--max-tokens", "6", "--seed", "3",
                   "--logprobs", "2", "--prompt-logprobs", "1", "--ignore-eos", "Once there was a king"});
      answers.push_back({json["token_ids"], json["logprobs"], json["prompt_logprobs"]});
    }
  }
  return answers;
}

TEST(Cuda, ServesEveryProfileWithTheBitsOfTheDeviceInside) {
  Json answers[2];
  for (const bool cuda : {false, true}) {
    ServerProcess server(kDemo, OnDevice(cuda ? "cuda" : "cpu"));
    ASSERT_TRUE(server.ready()) << server.Log();
    EXPECT_EQ(server.Log().find("device cuda (fake, cublas \"\")") != std::string::npos, cuda) << server.Log();
    answers[cuda ? 1 : 0] = Answers(server);
    const Json json = GenerateJson(server, {"--max-tokens", "1", "The"});
    EXPECT_EQ(json["execution"]["device"], cuda ? "cuda" : "cpu");
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Cuda, MetricsCountWhatRanAndWhatWasRefused) {
  ServerProcess server(kDemo, OnDevice("cuda"));
  ASSERT_TRUE(server.ready()) << server.Log();
  GenerateJson(server, {"--precision", "fp8", "--attention-backend", "efficient", "--max-tokens", "3", "--ignore-eos",
                        "Rain fell"});
  EXPECT_EQ(RunGenerateJson(server, {"--precision", "fp32", "--attention-backend", "flash", "Rain"}).status, 1);
  const std::pair<const char*, double> kCounts[] = {
      {R"(dunlin_requests_total{attention_backend="efficient",precision="fp8",status="OK"})", 1},
      {R"(vllm:generation_tokens_total{model_name="demo"})", 3},
      {R"(dunlin_refusals_total{reason="PROFILE_UNSUPPORTED"})", 1},
  };
  for (const auto& [series, count] : kCounts) EXPECT_TRUE(ComesToMetric(server.http(), series, count)) << series;
  EXPECT_GT(MetricValue(HttpGet(server.http(), "/metrics"), R"(dunlin_kv_pages_total{model_name="demo"})"), 0.0);
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server.grpc()}).status, 0);
}

std::vector<std::string> EncoderOn(const std::string& device) {
  std::vector<std::string> arguments = OnDevice(device);
  arguments.insert(arguments.end(), {"--set", "models.0.path=" DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_sentence",
                                     "--set", "models.0.name=encoder"});
  return arguments;
}

CommandResult Embed(const ServerProcess& server, std::vector<std::string> arguments) {
  std::vector<std::string> all = {"embed", "--address", server.grpc(), "--model", "encoder", "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunDunlin(all);
}

TEST(Cuda, EmbedsWithTheBitsOfTheDeviceInside) {
  Json vectors[2];
  for (const bool cuda : {false, true}) {
    ServerProcess server(kDemo, EncoderOn(cuda ? "cuda" : "cpu"));
    ASSERT_TRUE(server.ready()) << server.Log();
    for (const std::string& precision : kernels::NamesOf(kernels::kPrecisionTable)) {
      const CommandResult result = Embed(server, {"--precision", precision, "--attention-backend", "efficient",
                                                  "A dunlin flies.", "Dunlins fly in a flock."});
      ASSERT_EQ(result.status, 0) << result.out << result.err;
      const Json json = Json::parse(result.out, nullptr, false);
      EXPECT_EQ(json["execution"]["device"], cuda ? "cuda" : "cpu");
      vectors[cuda ? 1 : 0].push_back(json["embeddings"]);
    }
  }
  EXPECT_EQ(vectors[0].size(), size_t{kernels::kNumPrecisions});
  EXPECT_EQ(vectors[0], vectors[1]);
}

// [rows, whether algorithms were chosen then] of every product that a server asks of its device until it is told to
// end.
struct ProductLog {
  explicit ProductLog(const char* name) : file(std::string("/tmp/dunlin_products_") + name + std::to_string(getpid())) {
    setenv(kernels::kFakeProductsFile, file.c_str(), 1);
  }
  ~ProductLog() {
    unsetenv(kernels::kFakeProductsFile);
    std::remove(file.c_str());
  }
  std::vector<std::pair<int, bool>> Read() const {
    std::vector<std::pair<int, bool>> products;
    std::ifstream lines(file);
    int tuned = 0;
    for (int rows = 0, decode_rows = 0; lines >> rows >> decode_rows >> tuned;) products.push_back({rows, tuned != 0});
    return products;
  }

  const std::string file;
};

TEST(Cuda, AlgorithmsAreChosenBeforeReadyAndNeverAfterwards) {
  for (const bool encodes : {false, true}) {
    const ProductLog log(encodes ? "encoder" : "decoder");
    const std::string cache = log.file + ".algorithms";
    std::ofstream(cache) << "of another machine";
    for (const bool first : {true, false}) {
      std::remove(log.file.c_str());
      std::vector<std::string> arguments = encodes ? EncoderOn("cuda") : OnDevice("cuda");
      arguments.insert(arguments.end(), {"--set", "compute.cublas_algorithm_cache=" + cache});
      arguments.insert(arguments.end(), {"--set", "compute.cuda_graphs=false"});
      ServerProcess server(kDemo, arguments);
      ASSERT_TRUE(server.ready()) << server.Log();
      const auto chosen = log.Read();
      EXPECT_THAT(chosen, Each(Pair(_, true)));
      EXPECT_THAT(chosen, Contains(Pair(Gt(1), true))) << "a prompt";
      EXPECT_EQ(server.Log().find(cache + " is ignored: of another machine") != std::string::npos, first)
          << server.Log();
      const CommandResult result =
          encodes ? Embed(server, {"A dunlin flies."}) : RunGenerateJson(server, {"--max-tokens", "2", "Rain fell"});
      EXPECT_EQ(result.status, 0) << result.out << result.err;
      const auto all = log.Read();
      ASSERT_GT(all.size(), chosen.size());
      for (size_t i = chosen.size(); i < all.size(); ++i) EXPECT_FALSE(all[i].second) << i;
    }
    std::remove(cache.c_str());
  }
}

TEST(Cuda, WithoutAFileOfAlgorithmsAndGraphsNothingIsComputedBeforeReady) {
  const ProductLog log("none");
  std::vector<std::string> arguments = OnDevice("cuda");
  arguments.insert(arguments.end(), {"--set", "compute.cuda_graphs=false"});
  ServerProcess server(kDemo, arguments);
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_TRUE(log.Read().empty());
}

// A recording that fails is a warning; the steps are the same.
TEST(Cuda, DecodeStepsAreRecordedBeforeReady) {
  Json tokens[2];
  for (const bool refuses : {false, true}) {
    const std::string file = "/tmp/dunlin_recorded_" + std::to_string(getpid());
    setenv(kernels::kFakeGraphsFile, file.c_str(), 1);
    if (refuses) setenv(kernels::kFakeRefusesGraphs, "1", 1);
    std::vector<std::string> arguments = OnDevice("cuda");
    arguments.insert(arguments.end(), {"--set", "scheduler.max_sequences=4"});
    ServerProcess server(kDemo, arguments);
    unsetenv(kernels::kFakeGraphsFile);
    unsetenv(kernels::kFakeRefusesGraphs);
    ASSERT_TRUE(server.ready()) << server.Log();
    const auto launched = [&] {
      std::ifstream graphs(file);
      return std::count(std::istreambuf_iterator<char>(graphs), {}, '\n');
    };
    const auto before = launched();
    EXPECT_EQ(before > 0, !refuses);
    EXPECT_THAT(server.Log(), HasSubstr("step graphs"));
    EXPECT_EQ(server.Log().find("could not record decode steps") != std::string::npos, refuses) << server.Log();
    const Json json = GenerateJson(
        server, {"--precision", "bf16", "--max-tokens", "4", "--ignore-eos", "--temperature", "0", "Rain"});
    tokens[refuses ? 1 : 0] = json["token_ids"];
    EXPECT_EQ(launched() - before, refuses ? 0 : 3) << "all but the prompt";
    std::remove(file.c_str());
  }
  EXPECT_EQ(tokens[0].size(), 4U);
  EXPECT_EQ(tokens[0], tokens[1]);
}

TEST(Cuda, AnEncodersFailedDeviceEndsItsCallsAndTheProcessToo) {
  const std::string file = "/tmp/dunlin_encoder_fails_" + std::to_string(getpid());
  setenv(kernels::kFakeFailFile, file.c_str(), 1);
  ServerProcess server(kDemo, EncoderOn("cuda"));
  unsetenv(kernels::kFakeFailFile);
  ASSERT_TRUE(server.ready()) << server.Log();
  std::ofstream(file) << "now";
  const CommandResult result = Embed(server, {"A dunlin flies."});
  EXPECT_EQ(server.Wait(10), 70) << server.Log();
  std::remove(file.c_str());
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(Json::parse(result.out, nullptr, false)["error"]["code"], "UNAVAILABLE") << result.out;
}

TEST(Cuda, EagerRecipesAndFp8PagesServeToo) {
  for (const char* setting :
       {"models.0.execution=eager", "models.0.fp8.recipe=delayed", "models.0.kv_cache.fp8=true"}) {
    std::vector<std::string> arguments = OnDevice("cuda");
    arguments.insert(arguments.end(), {"--set", setting, "--set", "models.0.deterministic=false"});
    ServerProcess server(kDemo, arguments);
    ASSERT_TRUE(server.ready()) << server.Log();
    for (int i = 0; i < 2; ++i) {
      const Json json = GenerateJson(server, {"--precision", "fp8", "--max-tokens", "4", "--ignore-eos", "The people"});
      EXPECT_EQ(json["token_ids"].size(), 4U) << setting;
      EXPECT_EQ(json["execution"]["device"], "cuda") << setting;
      const bool delayed = std::string(setting).find("recipe") != std::string::npos;
      EXPECT_EQ(json["execution"]["recipe"], delayed ? "delayed" : "per_token") << setting;
      const bool narrow = std::string(setting).find("kv_cache") != std::string::npos;
      EXPECT_EQ(json["execution"]["kv_dtype"] == "fp8_e4m3", narrow) << setting;
    }
  }
}

TEST(Cuda, WhatTheDeviceDoesNotTakeIsRefusedWithItsReasonOrFallsBack) {
  ServerProcess server(kDemo, OnDevice("cuda"));
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::vector<std::string> flash = {"--precision", "fp32", "--attention-backend", "flash", "--max-tokens", "2"};
  std::vector<std::string> arguments = flash;
  arguments.emplace_back("The");
  const CommandResult refused = RunGenerateJson(server, arguments);
  EXPECT_EQ(refused.status, 1);
  const Json error = Json::parse(refused.out, nullptr, false);
  EXPECT_EQ(error["error"]["code"], "FAILED_PRECONDITION") << refused.out;
  EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr("flash on cuda supports keys in fp16"));
  arguments.insert(arguments.begin(), "--allow-fallback");
  EXPECT_EQ(GenerateJson(server, arguments)["execution"]["attention_backend"], "efficient");
  const CommandResult on_cpu = RunGenerateJson(server, {"--device", "cpu", "--max-tokens", "2", "The"});
  EXPECT_EQ(on_cpu.status, 1);
  EXPECT_THAT(on_cpu.out, HasSubstr("this model is served on cuda"));
}

TEST(Cuda, AutoTakesTheDeviceWhereOneOpensAndElseTheCpuWithOneLine) {
  const struct {
    const char* module;
    const char* device;
    const char* line;
  } rows[] = {
      {"fake_cuda", "cuda", "device cuda (fake"},
      {"nowhere", "cpu", "no CUDA device, using the CPU: the CUDA module cannot be loaded"},
      {"broken_abi", "cpu", "no CUDA device, using the CPU: "},
      {"broken_table", "cpu", "is not complete: it lacks"},
  };
  for (const auto& row : rows) {
    ServerProcess server(kDemo, OnDevice("auto", row.module));
    ASSERT_TRUE(server.ready()) << server.Log();
    EXPECT_EQ(GenerateJson(server, {"--max-tokens", "1", "The"})["execution"]["device"], row.device);
    const std::string log = server.Log();
    const size_t first = log.find(row.line);
    ASSERT_NE(first, std::string::npos) << row.module << "\n" << log;
    EXPECT_EQ(log.find(row.line, first + 1), std::string::npos) << "said once";
  }
}

TEST(Cuda, RefusesToStartWithTheReason) {
  setenv(kernels::kFakeOpenError, "the driver is too old", 1);
  const struct {
    const char* module;
    const char* reason;
  } rows[] = {
      {"fake_cuda", "device cuda cannot be opened: the driver is too old"},
      {"nowhere", "device cuda cannot be opened: the CUDA module cannot be loaded"},
      {"broken_abi", "has module ABI 3; this binary has 2"},
      {"broken_digest", "belongs to another build of dunlin"},
      {"broken_table", "is not complete: it lacks allocate"},
      {"broken_entry", "exports no dunlin_device_module"},
  };
  for (const auto& row : rows) {
    std::vector<std::string> arguments = {
        "serve", "--config", kDemo, "--set", "listen.http=127.0.0.1:0", "--set", "listen.grpc=127.0.0.1:0"};
    for (const std::string& argument : OnDevice("cuda", row.module)) arguments.push_back(argument);
    const CommandResult result = RunDunlin(arguments, 20);
    EXPECT_EQ(result.status, 1) << row.module;
    EXPECT_THAT(result.err, HasSubstr(row.reason));
    EXPECT_EQ(result.out, "") << "no READY";
  }
  unsetenv(kernels::kFakeOpenError);
}

TEST(Cuda, AFailedDeviceEndsRequestsWithUnavailableAndTheProcessWithin1s) {
  const std::string file = "/tmp/dunlin_cuda_fails_" + std::to_string(getpid());
  setenv(kernels::kFakeFailFile, file.c_str(), 1);
  ServerProcess server(kDemo, OnDevice("cuda"));
  unsetenv(kernels::kFakeFailFile);
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server.grpc()}).status, 0);
  RunningCommand client({"generate", "--address", server.grpc(), "--model", "demo", "--json", "--max-tokens", "480",
                         "--ignore-eos", "--precision", "fp32", "--attention-backend", "math", "A long tale"});
  ASSERT_TRUE(ComesToMetric(server.http(), R"(vllm:num_requests_running{model_name="demo"})", 1));
  std::ofstream(file) << "now";
  const auto failed = Clock::now();
  EXPECT_EQ(server.Wait(10), 70);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - failed);
  EXPECT_LT(took.count(), 1000);
  const CommandResult result = client.Wait();
  std::remove(file.c_str());
  EXPECT_EQ(result.status, 1);
  const Json error = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(error["error"]["code"], "UNAVAILABLE") << result.out;
  EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr("the device failed"));
  EXPECT_THAT(server.Log(), HasSubstr("model demo: the device failed; exiting"));
}

TEST(Cuda, InspectSaysWhatADeviceOffers) {
  const std::string module = std::string(DUNLIN_MODULE_DIR) + "/libfake_cuda.so";
  const std::vector<std::string> command = {"inspect", "--device", "cuda", "--cuda-module", module};
  const CommandResult table = RunDunlin(command);
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("memory                   1024 MiB\n"));
  EXPECT_THAT(table.out, HasSubstr("flash      bf16     yes\n"));
  EXPECT_THAT(table.out, HasSubstr("flash      fp32     no: flash on cuda supports keys in fp16"));
  std::vector<std::string> as_json = command;
  as_json.emplace_back("--json");
  const Json json = Json::parse(RunDunlin(as_json).out, nullptr, false);
  EXPECT_EQ(json["facts"]["name"], "fake");
  EXPECT_EQ(json["attention"].size(), 12U);
  const CommandResult none = RunDunlin({"inspect", "--device", "cuda", "--cuda-module", "/nowhere.so"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("device cuda cannot be opened: the CUDA module cannot be loaded"));
  EXPECT_EQ(RunDunlin({"inspect", "--device", "cuda", "--shape", "gpt2-124m"}).status, 2);
}

TEST(Cuda, InspectSaysWhyThereIsNoDevice) {
  const CommandResult result = RunDunlin({"inspect", DUNLIN_SOURCE_DIR "/models/demo", "--json"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  int cuda_rows = 0;
  for (const Json& row : json["profiles"]) {
    if (row["device"] != "cuda") continue;
    ++cuda_rows;
    EXPECT_EQ(row["supported"].get<bool>(), row["reasons"].empty()) << row;
  }
  EXPECT_EQ(cuda_rows, 18);
}

}  // namespace
}  // namespace dunlin::integration
