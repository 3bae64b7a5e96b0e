// SPDX-License-Identifier: Apache-2.0
// LoRA adapters that come and go while requests run: by calls of every API and by the config; what is refused.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "dunlin/v1/model.grpc.pb.h"
#include "tests/integration/process/adapters_fixture.h"
#include "vllm/control.grpc.pb.h"

namespace dunlin::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Adapters, CallsLoadReplaceAndUnload) {
  const auto server = Serve({});
  const Completion base = CompleteOnce(server->http(), "demo");
  EXPECT_THAT(CompleteOnce(server->http(), "one").text, HasSubstr("UNKNOWN_MODEL"));
  const std::string loaded = LoadByHttp(*server, "one", one_);
  EXPECT_THAT(loaded, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(BodyOf(loaded), "Success: LoRA adapter 'one' added successfully.");
  const Completion one = CompleteOnce(server->http(), "one");
  EXPECT_TRUE(one.ok) << one.text;
  EXPECT_NE(one.text, base.text);

  const std::string again = LoadByHttp(*server, "one", two_);
  EXPECT_THAT(again, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(JsonOf(again)["error"]["type"], "InvalidUserInput");
  EXPECT_EQ(JsonOf(again)["error"]["code"], 400);
  EXPECT_EQ(CompleteOnce(server->http(), "one").text, one.text);
  EXPECT_THAT(LoadByHttp(*server, "one", two_, /*in_place=*/true), StartsWith("HTTP/1.1 200 "));
  const Completion replaced = CompleteOnce(server->http(), "one");
  EXPECT_NE(replaced.text, one.text) << "the prefix cache has pages of the former weights";
  WriteAdapter(two_, 1);
  EXPECT_THAT(LoadByHttp(*server, "one", two_, /*in_place=*/true), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(CompleteOnce(server->http(), "one").text, one.text) << "the same weights from another folder";

  const std::string unloaded = UnloadByHttp(*server, "one");
  EXPECT_EQ(BodyOf(unloaded), "Success: LoRA adapter 'one' removed successfully.");
  EXPECT_THAT(CompleteOnce(server->http(), "one").text, HasSubstr("UNKNOWN_MODEL"));
  EXPECT_THAT(UnloadByHttp(*server, "one"), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(CompleteOnce(server->http(), "demo").text, base.text);
  EXPECT_EQ(MetricValue(HttpGet(server->http(), "/metrics"), R"(dunlin_model_adapter_loads_total{model_name="demo"})"),
            3);
}

TEST_F(Adapters, WhatCannotBeLoadedIsRefusedAndChangesNothing) {
  const auto server = Serve({{"one", one_}});
  const Completion one = CompleteOnce(server->http(), "one");
  const std::string wide = WriteAdapter(folder_.path("wide"), 3, 96);
  std::filesystem::create_directories(folder_.path("broken"));
  std::ofstream(folder_.path("broken") + "/adapter_config.json") << "{";
  const struct {
    std::string name;
    std::string path;
    const char* head;
    const char* says;
  } kRows[] = {
      {"two", folder_.path("nowhere"), "HTTP/1.1 404 ", "NotFoundError"},
      {"two", wide, "HTTP/1.1 400 ", "96"},
      {"two", folder_.path("broken"), "HTTP/1.1 400 ", "adapter_config.json"},
      {"two", "relative", "HTTP/1.1 400 ", "absolute path"},
      {"two@fp8", two_, "HTTP/1.1 400 ", "'@'"},
      {"", two_, "HTTP/1.1 400 ", "lora_name"},
      {"demo", two_, "HTTP/1.1 400 ", "another model"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(LoadByHttp(*server, row.name, row.path), AllOf(StartsWith(row.head), HasSubstr(row.says)))
        << row.name << " " << row.path;
  }
  for (const char* name : {"a", "b", "c"}) EXPECT_THAT(LoadByHttp(*server, name, two_), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(LoadByHttp(*server, "d", two_), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("max_adapters")));
  EXPECT_EQ(CompleteOnce(server->http(), "one").text, one.text);
  EXPECT_THAT(PostOnce(server->http(), "/v1/embeddings", R"({"model":"one","input":"a"})"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("WRONG_MODEL_KIND")));
}

TEST_F(Adapters, ABadOneRefusesTheStart) {
  const std::string wide = WriteAdapter(folder_.path("wide"), 3, 96);
  folder_.WriteConfig({WithAdapters(model_, {{"one", one_}, {"wide", wide}})});
  const CommandResult refused = RunDunlin(
      {"serve", "--config", folder_.config(), "--set", "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("cannot start: "), HasSubstr("adapter \"wide\""), HasSubstr("96")));
  folder_.WriteConfig({WithAdapters(model_, {{"demo", one_}})});
  const CommandResult named = RunDunlin({"serve", "--config", folder_.config()});
  EXPECT_THAT(named.err, HasSubstr("models[0].adapters[0].name is \"demo\""));
}

TEST_F(Adapters, LoadsAndUnloadsDisturbNoStream) {
  const auto server = Serve({{"one", one_}});
  std::string alone[2];
  const char* const models[2] = {"one", "demo"};
  for (int i = 0; i < 2; ++i) {
    CompletionStream stream(server->http(), models[i]);
    ASSERT_TRUE(stream.Began());
    alone[i] = stream.Text();
  }
  CompletionStream one(server->http(), "one");
  CompletionStream base(server->http(), "demo");
  ASSERT_TRUE(one.Began());
  ASSERT_TRUE(base.Began());
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(LoadByHttp(*server, "other", two_, /*in_place=*/true), StartsWith("HTTP/1.1 200 "));
    EXPECT_TRUE(CompleteOnce(server->http(), "other").ok);
  }
  EXPECT_THAT(UnloadByHttp(*server, "other"), StartsWith("HTTP/1.1 200 "));
  // The one that runs goes, and comes back with other weights.
  EXPECT_THAT(UnloadByHttp(*server, "one"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(CompleteOnce(server->http(), "one").text, HasSubstr("UNKNOWN_MODEL"));
  EXPECT_THAT(LoadByHttp(*server, "one", two_), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(one.Text(), alone[0]);
  EXPECT_EQ(base.Text(), alone[1]);
  CompletionStream replaced(server->http(), "one");
  ASSERT_TRUE(replaced.Began());
  EXPECT_NE(replaced.Text(), alone[0]);
}

TEST_F(Adapters, TheConfigAddsAndRemovesWithoutANewVersionOfTheModel) {
  const auto server = Serve({{"one", one_}}, {});
  const Completion one = CompleteOnce(server->http(), "one");
  folder_.WriteConfig({WithAdapters(model_, {{"two", two_}, {"broken", folder_.path("nowhere")}})});
  server->Signal(SIGHUP);
  EXPECT_TRUE(ComesToValue(*server, R"(dunlin_model_adapter_load_failures_total{model_name="demo"})", 1));
  EXPECT_TRUE(ComesToValue(*server, R"(dunlin_model_adapters{model_name="demo"})", 1));
  EXPECT_TRUE(CompleteOnce(server->http(), "two").ok);
  EXPECT_THAT(CompleteOnce(server->http(), "one").text, HasSubstr("UNKNOWN_MODEL"));
  EXPECT_THAT(CompleteOnce(server->http(), "broken").text, HasSubstr("could not be loaded"));
  EXPECT_EQ(ModelAdmin(server->grpc()).StatusOf("demo").loads(), 1U);
  EXPECT_THAT(LoadByHttp(*server, "one", one_), StartsWith("HTTP/1.1 403 ")) << "without keys the config alone does";
  folder_.WriteConfig({WithAdapters(model_, {{"one", one_}, {"two", two_}})});
  server->Signal(SIGHUP);
  EXPECT_TRUE(ComesToValue(*server, R"(dunlin_model_adapters{model_name="demo"})", 2));
  EXPECT_EQ(CompleteOnce(server->http(), "one").text, one.text);
  EXPECT_EQ(ModelAdmin(server->grpc()).StatusOf("demo").loads(), 1U);
}

TEST_F(Adapters, NewVersionsOfTheModelHaveThoseOfCalls) {
  const auto server = Serve({{"one", one_}});
  ASSERT_THAT(LoadByHttp(*server, "called", two_), StartsWith("HTTP/1.1 200 "));
  const Completion called = CompleteOnce(server->http(), "called");
  EXPECT_TRUE(ModelAdmin(server->grpc()).Reload("demo").ok());
  EXPECT_EQ(CompleteOnce(server->http(), "called").text, called.text);
  std::filesystem::remove_all(two_);
  EXPECT_TRUE(ModelAdmin(server->grpc()).Reload("demo").ok()) << "one that a call has loaded is left out";
  EXPECT_THAT(CompleteOnce(server->http(), "called").text, HasSubstr("UNKNOWN_MODEL"));
  EXPECT_TRUE(CompleteOnce(server->http(), "one").ok);
}

TEST_F(Adapters, ARequestThatNamesOneLoadsAnIdleModel) {
  nlohmann::json settings = WithAdapters(model_, {{"one", one_}});
  settings["idle_unload_s"] = 1;
  folder_.WriteConfig({settings});
  const ServerProcess server(folder_.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(JsonOf(GetOnce(server.http(), "/v1/models"))["data"].size(), 2U) << "a request may name it";
  const Completion one = CompleteOnce(server.http(), "one");
  EXPECT_TRUE(one.ok) << one.text;
  EXPECT_TRUE(ComesToValue(server, R"(dunlin_model_state{model_name="demo",state="unloaded"})", 1));
  EXPECT_EQ(CompleteOnce(server.http(), "one@math").text, one.text);
}

TEST_F(Adapters, TritonsRepositoryReadsTheFilesAgain) {
  const auto server = Serve({{"one", one_}});
  const Completion one = CompleteOnce(server->http(), "one");
  WriteAdapter(one_, 7);
  EXPECT_EQ(CompleteOnce(server->http(), "one").text, one.text);
  EXPECT_THAT(PostOnce(server->http(), "/v2/repository/models/one/load", ""), StartsWith("HTTP/1.1 200 "));
  EXPECT_NE(CompleteOnce(server->http(), "one").text, one.text);
  EXPECT_THAT(PostOnce(server->http(), "/v2/repository/models/one/unload", ""), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(CompleteOnce(server->http(), "one").text, HasSubstr("UNKNOWN_MODEL"));
  EXPECT_THAT(GetOnce(server->http(), "/v2/models/one/ready"), StartsWith("HTTP/1.1 4"));
  EXPECT_TRUE(CompleteOnce(server->http(), "demo").ok);
}

TEST_F(Adapters, GrpcLoadsAndUnloads) {
  const auto server = Serve({});
  const auto channel = grpc::CreateChannel(server->grpc(), grpc::InsecureChannelCredentials());
  const auto stub = v1::ModelService::NewStub(channel);
  v1::LoadAdapterRequest load;
  load.set_name("one");
  load.set_path(one_);
  v1::LoadAdapterResponse loaded;
  ASSERT_TRUE(CallRpc(stub.get(), &v1::ModelService::Stub::LoadAdapter, load, &loaded).ok());
  EXPECT_EQ(loaded.adapter().model(), "demo");
  EXPECT_EQ(loaded.adapter().rank(), 4);
  EXPECT_GT(loaded.adapter().bytes(), 0U);
  EXPECT_EQ(CallRpc(stub.get(), &v1::ModelService::Stub::LoadAdapter, load, &loaded).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  load.set_in_place(true);
  const uint64_t id = loaded.adapter().id();
  ASSERT_TRUE(CallRpc(stub.get(), &v1::ModelService::Stub::LoadAdapter, load, &loaded).ok());
  EXPECT_NE(loaded.adapter().id(), id);
  load.set_model("other");
  EXPECT_EQ(CallRpc(stub.get(), &v1::ModelService::Stub::LoadAdapter, load, &loaded).error_code(),
            grpc::StatusCode::NOT_FOUND);
  v1::UnloadAdapterRequest unload;
  unload.set_name("one");
  v1::UnloadAdapterResponse unloaded;
  EXPECT_TRUE(CallRpc(stub.get(), &v1::ModelService::Stub::UnloadAdapter, unload, &unloaded).ok());
  EXPECT_EQ(CallRpc(stub.get(), &v1::ModelService::Stub::UnloadAdapter, unload, &unloaded).error_code(),
            grpc::StatusCode::NOT_FOUND);

  ::vllm::LoadLoraRequest lora;
  lora.set_lora_name("two");
  lora.set_source_path(two_);
  ::vllm::LoadLoraResponse made;
  const auto control = ::vllm::Control::NewStub(channel);
  ASSERT_TRUE(CallRpc(control.get(), &::vllm::Control::Stub::LoadLora, lora, &made).ok());
  EXPECT_EQ(made.adapter().lora_name(), "two");
  EXPECT_GT(made.adapter().lora_id(), 0);
  ::vllm::UnloadLoraRequest gone;
  gone.set_lora_name("two");
  ::vllm::UnloadLoraResponse went;
  EXPECT_TRUE(CallRpc(control.get(), &::vllm::Control::Stub::UnloadLora, gone, &went).ok());
}

TEST_F(Adapters, AFolderBoundsWhatCallsMayLoad) {
  const std::string outside = WriteAdapter(folder_.path("outside"), 3);
  WriteAdapter(folder_.path("allowed") + "/team/one", 1);
  std::filesystem::create_directory_symlink(outside, folder_.path("allowed") + "/link");
  nlohmann::json settings = WithAdapters(model_, {});
  settings["adapter_folder"] = "allowed";
  folder_.WriteConfig({settings});
  const ServerProcess server(folder_.config(), {"--set", kMayChangeModels});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(LoadByHttp(server, "a", "team/one"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(LoadByHttp(server, "b", folder_.path("allowed") + "/team/one"), StartsWith("HTTP/1.1 200 "));
  for (const std::string& path : {outside, std::string("../outside"), std::string("link"), std::string(".")}) {
    EXPECT_THAT(LoadByHttp(server, "c", path), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("adapter_folder"))) << path;
  }
}

}  // namespace
}  // namespace dunlin::integration
