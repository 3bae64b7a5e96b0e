// SPDX-License-Identifier: Apache-2.0
// Models that come and go while the server runs: reloads under load, of good files and of bad ones; the config and
// SIGHUP; the states, the metrics and the permissions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"
#include "tests/integration/process/live_server.h"

namespace dunlin::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kAdmin[] = "access.admin_without_keys=true";

// By the memory plan: weights 15, KV 17, workspace 8, tokenizer 5 MB. What the allocator keeps after 30 loads is less.
constexpr double kVersionBytes = 45e6;

// What happens to the files of a model before a reload that must fail.
struct Damage {
  const char* what;
  void (*inflict)(const std::string& model);
};
constexpr Damage kDamages[] = {
    {"cut short",
     [](const std::string& model) {
       EXPECT_EQ(truncate((model + "/model.safetensors").c_str(), 1 << 20), 0) << "of 7 MiB";
     }},
    {"missing", [](const std::string& model) { std::filesystem::remove(model + "/model.safetensors"); }},
    {"a header that is none",
     [](const std::string& model) {
       std::ofstream(model + "/model.safetensors", std::ios::binary) << std::string(1 << 16, '\xff');
     }},
    {"a config that is none",
     [](const std::string& model) { std::ofstream(model + "/config.json") << "{\"architectures\": ["; }},
    {"a tokenizer that is none", [](const std::string& model) { std::ofstream(model + "/tokenizer.json") << "[]"; }},
};

TEST(LiveModels, ReloadsUnderLoadFailNoRequestAndLeaveNoMemory) {
  const LiveFolder folder("reloads");
  const std::string model = folder.CopyModel("model");
  folder.WriteConfig({LiveFolder::Model("demo", model)});
  const ServerProcess server(folder.config(), {"--set", kAdmin});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const Completion expected = CompleteOnce(server.http(), "demo");
  ASSERT_TRUE(expected.ok) << expected.text;
  SteadyLoad load(server.http(), "demo", expected.text, 2);
  ASSERT_TRUE(PoolIsBacked(server.http(), "demo"));
  const double baseline = ResidentBytesOf(server);
  int failed = 0;
  constexpr int kReloads = 30;
  for (int i = 0; i < kReloads; ++i) {
    const bool bad = i % 3 == 2;
    const Damage& damage = kDamages[static_cast<size_t>(failed) % std::size(kDamages)];
    if (bad) {
      damage.inflict(model);
      ++failed;
    }
    const grpc::Status status = admin.Reload("demo");
    const v1::ModelStatus state = admin.StatusOf("demo");
    EXPECT_EQ(state.state(), v1::MODEL_STATE_READY);
    EXPECT_EQ(status.error_code(), bad ? grpc::StatusCode::FAILED_PRECONDITION : grpc::StatusCode::OK)
        << damage.what << ": " << status.error_message();
    EXPECT_EQ(state.failure().empty(), !bad) << damage.what;
    EXPECT_EQ(state.load_failures(), failed);
    if (bad) {
      EXPECT_THAT(status.error_details(), HasSubstr("LOAD_FAILED"));
      std::filesystem::copy(
          kDemoModel, model,
          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    }
  }
  EXPECT_EQ(admin.StatusOf("demo").loads(), 1 + kReloads - failed);
  EXPECT_EQ(MetricValue(HttpGet(server.http(), "/metrics"), R"(dunlin_model_last_load_failed{model_name="demo"})"), 1)
      << "the last one was of bad files";
  load.Stop();
  EXPECT_GT(load.num_completed(), kReloads);
  EXPECT_THAT(load.failures(), IsEmpty());
  EXPECT_TRUE(ComesToMemory(server, baseline + kVersionBytes))
      << "no version is left: " << ResidentBytesOf(server) << " bytes, " << baseline << " before";
}

TEST(LiveModels, TheConfigLoadsReplacesAndUnloads) {
  const LiveFolder folder("config");
  const std::string first = folder.CopyModel("first");
  folder.WriteConfig({LiveFolder::Model("a", first)});
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const Completion expected = CompleteOnce(server.http(), "a");
  ASSERT_TRUE(expected.ok) << expected.text;

  // b comes, c cannot be loaded.
  folder.WriteConfig(
      {LiveFolder::Model("a", first), LiveFolder::Model("b", first), LiveFolder::Model("c", folder.path("nowhere"))});
  server.Signal(SIGHUP);
  EXPECT_TRUE(admin.ComesTo("b", v1::MODEL_STATE_READY)) << server.Log();
  EXPECT_TRUE(admin.ComesTo("c", v1::MODEL_STATE_FAILED)) << server.Log();
  EXPECT_EQ(CompleteOnce(server.http(), "b").text, expected.text);
  EXPECT_THAT(admin.StatusOf("c").failure(), HasSubstr("nowhere"));
  EXPECT_THAT(CompleteOnce(server.http(), "c").text, HasSubstr("could not be loaded"));
  const std::string metrics = HttpGet(server.http(), "/metrics");
  EXPECT_EQ(MetricValue(metrics, R"(dunlin_model_state{model_name="c",state="failed"})"), 1);
  EXPECT_EQ(MetricValue(metrics, R"(dunlin_model_load_failures_total{model_name="c"})"), 1);
  EXPECT_THAT(metrics, Not(HasSubstr(R"(vllm:num_requests_running{model_name="c"})")));
  EXPECT_THAT(metrics, HasSubstr(R"(vllm:num_requests_running{model_name="b"})"));

  // a changes, b goes, c has its files now.
  folder.CopyModel("nowhere");
  nlohmann::json changed = LiveFolder::Model("a", first);
  changed["max_context_tokens"] = 128;
  folder.WriteConfig({changed, LiveFolder::Model("c", folder.path("nowhere"))});
  server.Signal(SIGHUP);
  EXPECT_TRUE(admin.ComesTo("c", v1::MODEL_STATE_READY)) << server.Log();
  EXPECT_TRUE(admin.ComesTo("b", v1::MODEL_STATE_UNSPECIFIED)) << "it is unknown once it is freed";
  EXPECT_EQ(admin.StatusOf("a").loads(), 2U);
  EXPECT_THAT(HttpGet(server.http(), "/v1/models/a"), HasSubstr(R"("max_model_len":128)"));
  EXPECT_EQ(CompleteOnce(server.http(), "a").text, expected.text);
  EXPECT_THAT(HttpGet(server.http(), "/metrics"), Not(HasSubstr(R"(model_name="b")")));
  EXPECT_THAT(HttpGet(server.http(), "/v1/models"), Not(HasSubstr(R"("id":"b")")));
  EXPECT_EQ(admin.Load("a").error_code(), grpc::StatusCode::PERMISSION_DENIED) << "without keys the config alone does";
}

TEST(LiveModels, AnUnloadedModelIsUnavailableUntilItIsLoaded) {
  const LiveFolder folder("unload");
  folder.WriteConfig({LiveFolder::Model("demo", folder.CopyModel("model"))});
  const ServerProcess server(folder.config(), {"--set", kAdmin});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const Completion expected = CompleteOnce(server.http(), "demo");
  EXPECT_TRUE(admin.Unload("demo").ok());
  EXPECT_TRUE(admin.Unload("demo").ok()) << "nothing is left to do";
  EXPECT_TRUE(admin.ComesTo("demo", v1::MODEL_STATE_UNLOADED));
  EXPECT_THAT(CompleteOnce(server.http(), "demo").text, AllOf(HasSubstr("is unloaded"), HasSubstr("MODEL_NOT_SERVED")));
  EXPECT_EQ(HttpGet(server.http(), "/readyz").empty(), false) << "the server is ready all the same";
  EXPECT_TRUE(admin.Load("demo").ok());
  EXPECT_TRUE(admin.Load("demo").ok()) << "it is served as it is configured";
  EXPECT_EQ(admin.StatusOf("demo").loads(), 2U);
  EXPECT_EQ(CompleteOnce(server.http(), "demo").text, expected.text);
  EXPECT_EQ(admin.Load("other").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(LiveModels, TritonsRepositoryCallsLoadAndUnload) {
  const LiveFolder folder("kserve");
  const std::string model = folder.CopyModel("model");
  folder.WriteConfig({LiveFolder::Model("demo", model)});
  const ServerProcess server(folder.config(), {"--set", kAdmin});
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::string path = "/v2/repository/models/demo/";
  EXPECT_THAT(PostOnce(server.http(), path + "load", ""), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(ModelAdmin(server.grpc()).StatusOf("demo").loads(), 2U) << "its files were read again";
  EXPECT_THAT(PostOnce(server.http(), path + "unload", ""), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(ModelAdmin(server.grpc()).ComesTo("demo", v1::MODEL_STATE_UNLOADED));
  EXPECT_THAT(PostOnce(server.http(), "/v2/repository/index", ""),
              AllOf(HasSubstr(R"("state":"UNAVAILABLE")"), HasSubstr(R"("reason":"unloaded")")));
  EXPECT_THAT(PostOnce(server.http(), "/v2/repository/index", R"({"ready": true})"), HasSubstr("\r\n\r\n[]"));
  std::filesystem::remove(model + "/config.json");
  EXPECT_THAT(PostOnce(server.http(), path + "load", ""),
              AllOf(Not(StartsWith("HTTP/1.1 200 ")), HasSubstr("config.json")));
  EXPECT_THAT(PostOnce(server.http(), "/v2/repository/index", ""), HasSubstr("config.json"));
  std::filesystem::copy(kDemoModel + "/config.json", model + "/config.json");
  EXPECT_THAT(PostOnce(server.http(), path + "load", ""), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(CompleteOnce(server.http(), "demo").ok);
}

TEST(LiveModels, ALoadThatDoesNotFitIsRefusedWithThePlansFigures) {
  const LiveFolder folder("memory");
  nlohmann::json model = LiveFolder::Model("demo", folder.CopyModel("model"));
  model["kv_cache"]["memory_bytes"] = int64_t{1} << 30;
  folder.WriteConfig({model});
  const ServerProcess server(folder.config(), {"--set", kAdmin, "--set", "memory.limit_bytes=2000000000", "--set",
                                               "memory.request_bytes=805306368"});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const grpc::Status refused = admin.Reload("demo");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_details(), HasSubstr("MODEL_MEMORY"));
  EXPECT_THAT(refused.error_message(), HasSubstr("the memory plan does not fit: model \"demo\": weights "));
  EXPECT_THAT(refused.error_message(), HasSubstr("unload a model first"));
  EXPECT_TRUE(CompleteOnce(server.http(), "demo").ok);
  EXPECT_TRUE(admin.Unload("demo").ok());
  EXPECT_TRUE(admin.Load("demo").ok()) << "alone it fits";
}

TEST(LiveModels, AVersionThatSaysSomethingElseThanTheGoldenOutputIsRefused) {
  const LiveFolder folder("golden");
  nlohmann::json model = LiveFolder::Model("demo", folder.CopyModel("model"));
  folder.WriteConfig({model});
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const Completion expected = CompleteOnce(server.http(), "demo");
  ASSERT_TRUE(expected.ok) << expected.text;
  model["golden"] = {{"prompt", "Once upon a time"}, {"output", "no model says this"}};
  folder.WriteConfig({model});
  server.Signal(SIGHUP);
  EXPECT_TRUE(ComesToValue(server, R"(dunlin_model_last_load_failed{model_name="demo"})", 1));
  EXPECT_THAT(admin.StatusOf("demo").failure(), HasSubstr("models[].golden.prompt is continued by \""));
  EXPECT_EQ(admin.StatusOf("demo").state(), v1::MODEL_STATE_READY) << "the earlier version is served";
  model["golden"]["output"] = expected.text;
  folder.WriteConfig({model});
  server.Signal(SIGHUP);
  EXPECT_TRUE(ComesToValue(server, R"(dunlin_model_last_load_failed{model_name="demo"})", 0)) << server.Log();
  EXPECT_EQ(admin.StatusOf("demo").loads(), 2U);
}

TEST(LiveModels, SleepUnloadsAndWakeUpLoads) {
  const LiveFolder folder("sleep");
  folder.WriteConfig({LiveFolder::Model("demo", folder.CopyModel("model"))});
  const ServerProcess server(folder.config(), {"--set", kAdmin});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const Completion expected = CompleteOnce(server.http(), "demo");
  EXPECT_FALSE(admin.IsSleeping());
  EXPECT_TRUE(admin.Sleep().ok());
  EXPECT_TRUE(admin.IsSleeping());
  EXPECT_TRUE(admin.ComesTo("demo", v1::MODEL_STATE_UNLOADED));
  EXPECT_FALSE(CompleteOnce(server.http(), "demo").ok);
  EXPECT_TRUE(admin.WakeUp().ok());
  EXPECT_FALSE(admin.IsSleeping());
  EXPECT_EQ(CompleteOnce(server.http(), "demo").text, expected.text);
}

TEST(LiveModels, FilesThatChangeWhileTheyAreServedHarmNobody) {
  const LiveFolder folder("files");
  const std::string model = folder.CopyModel("model");
  folder.WriteConfig({LiveFolder::Model("demo", model)});
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  const Completion expected = CompleteOnce(server.http(), "demo");
  ASSERT_TRUE(expected.ok) << expected.text;
  const auto serves = [&](const char* after) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(CompleteOnce(server.http(), "demo").text, expected.text) << after;
  };
  const std::string weights = model + "/model.safetensors";
  ASSERT_EQ(truncate(weights.c_str(), 4096), 0);
  serves("cut short");
  std::ofstream(weights, std::ios::binary) << std::string(1 << 20, '\0');
  serves("written over");
  std::filesystem::remove_all(model);
  serves("removed");
}

}  // namespace
}  // namespace dunlin::integration
