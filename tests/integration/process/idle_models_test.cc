// SPDX-License-Identifier: Apache-2.0
// Models that are loaded by their requests: the waits and their bounds, idle times, memory for fewer than all of them,
// and what routers are told.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/live_server.h"
#include "tests/server/transport/http/raw_client.h"
#include "vllm/control.grpc.pb.h"

namespace dunlin::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kAdminOfIdle[] = "access.admin_without_keys=true";

std::string WaitingFor(const std::string& model) {
  return R"(dunlin_model_waiting_requests{model_name=")" + model + R"("})";
}

std::string CompletionOf(const std::string& model) {
  const std::string body = R"({"model":")" + model + R"(","prompt":"Once"})";
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

grpc::StatusCode GenerateWithin(const std::string& address, const std::string& model, std::chrono::milliseconds time) {
  const auto stub = v1::GenerationService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + time);
  v1::GenerateRequest request;
  request.set_model(model);
  request.set_text("Once upon a time");
  const auto stream = stub->Generate(&context, request);
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
  }
  return stream->Finish().error_code();
}

TEST(IdleModels, AreUnloadedAndLoadedWithTheNextRequest) {
  const LiveFolder folder("idle");
  nlohmann::json idle = LiveFolder::Model("idle", folder.CopyModel("model"));
  idle["idle_unload_s"] = 1;
  folder.WriteConfig({LiveFolder::Model("kept", folder.path("model")), idle});
  const ServerProcess server(folder.config(), {"--set", kAdminOfIdle});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  EXPECT_EQ(admin.StatusOf("idle").state(), v1::MODEL_STATE_UNLOADED) << "nobody has asked for it";
  EXPECT_TRUE(admin.StatusOf("idle").loads_on_request());
  EXPECT_FALSE(admin.StatusOf("kept").loads_on_request());
  EXPECT_THAT(HttpGet(server.http(), "/v1/models"), HasSubstr(R"("id":"idle")"));
  EXPECT_THAT(HttpGet(server.http(), "/v1/models/idle"), HasSubstr(R"("max_model_len":)"));
  EXPECT_THAT(PostOnce(server.http(), "/v2/repository/index", R"({"ready": true})"), HasSubstr(R"("name":"idle")"));
  {
    SteadyLoad load(server.http(), "idle", CompleteOnce(server.http(), "kept").text, 4);
    EXPECT_TRUE(load.ComesToCompleted(40));
    load.Stop();
    EXPECT_THAT(load.failures(), IsEmpty());
  }
  EXPECT_TRUE(admin.ComesTo("idle", v1::MODEL_STATE_UNLOADED)) << "it was idle for a second";
  const v1::ModelStatus unloaded = admin.StatusOf("idle");
  EXPECT_GE(unloaded.idle_unloads(), 1U);
  EXPECT_EQ(unloaded.idle_unloads(), unloaded.loads());
  EXPECT_EQ(GenerateWithin(server.grpc(), "idle", std::chrono::seconds(60)), grpc::StatusCode::OK);
  EXPECT_EQ(admin.StatusOf("idle").loads(), unloaded.loads() + 1);
  EXPECT_EQ(admin.StatusOf("kept").loads(), 1U);

  // Whoever unloads it wants it unloaded.
  EXPECT_TRUE(admin.Unload("idle").ok());
  EXPECT_THAT(CompleteOnce(server.http(), "idle").text, HasSubstr("is unloaded"));
  EXPECT_FALSE(admin.StatusOf("idle").loads_on_request());
  EXPECT_THAT(HttpGet(server.http(), "/v1/models"), Not(HasSubstr(R"("id":"idle")")));
  EXPECT_THAT(PostOnce(server.http(), "/v2/repository/index", R"({"ready": true})"),
              Not(HasSubstr(R"("name":"idle")")));
  EXPECT_TRUE(admin.Load("idle").ok());
  EXPECT_TRUE(CompleteOnce(server.http(), "idle").ok);
}

// Ollama's clients load a model so.
TEST(IdleModels, AreLoadedByARequestThatGeneratesNothing) {
  const LiveFolder folder("empty");
  nlohmann::json idle = LiveFolder::Model("idle", folder.CopyModel("model"));
  idle["idle_unload_s"] = 3600;
  folder.WriteConfig({idle});
  const ServerProcess server(folder.config(), {});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  EXPECT_EQ(admin.StatusOf("idle").state(), v1::MODEL_STATE_UNLOADED);
  EXPECT_THAT(HttpGet(server.http(), "/api/tags"), HasSubstr(R"("model":"idle:latest")"));
  EXPECT_THAT(HttpGet(server.http(), "/api/ps"), HasSubstr(R"({"models":[]})"));
  EXPECT_THAT(PostOnce(server.http(), "/api/show", R"({"model":"idle:latest"})"), HasSubstr(".context_length\":"));
  EXPECT_THAT(PostOnce(server.http(), "/api/generate", R"({"model":"idle:latest"})"),
              HasSubstr(R"("response":"","done":true,"done_reason":"load"})"));
  EXPECT_EQ(admin.StatusOf("idle").state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(admin.StatusOf("idle").loads(), 1U);
  const auto running = [&server] { return nlohmann::json::parse(HttpGet(server.http(), "/api/ps"))["models"]; };
  ASSERT_EQ(running().size(), 1U);
  EXPECT_EQ(running()[0]["model"], "idle:latest");
  absl::Time expires;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, running()[0]["expires_at"].get<std::string>(), &expires, nullptr));
  EXPECT_GT(expires, absl::Now() + absl::Seconds(3400));
  EXPECT_LE(expires, absl::Now() + absl::Seconds(3600));

  const std::string stop = R"({"model":"idle:latest","keep_alive":0})";
  EXPECT_THAT(PostOnce(server.http(), "/api/generate", stop), HasSubstr(R"("done":true,"done_reason":"unload"})"));
  EXPECT_TRUE(admin.ComesTo("idle", v1::MODEL_STATE_UNLOADED)) << server.Log();
  EXPECT_TRUE(running().empty());
  EXPECT_THAT(PostOnce(server.http(), "/api/chat", stop), HasSubstr(R"("done":true,"done_reason":"unload"})"));
  EXPECT_EQ(admin.StatusOf("idle").loads(), 1U) << "a model is not loaded to be unloaded";
  EXPECT_TRUE(admin.StatusOf("idle").loads_on_request());
  EXPECT_THAT(PostOnce(server.http(), "/api/generate", R"({"model":"idle","prompt":"Once","stream":false})"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(admin.StatusOf("idle").loads(), 2U);
  EXPECT_EQ(running().size(), 1U);
  EXPECT_THAT(
      PostOnce(server.http(), "/api/chat",
               R"({"model":"idle","messages":[{"role":"user","content":"Hi"}],"keep_alive":"0s","stream":false})"),
      StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(admin.ComesTo("idle", v1::MODEL_STATE_UNLOADED)) << "after its answer";
  EXPECT_EQ(admin.StatusOf("idle").loads(), 2U);
}

TEST(IdleModels, AreUnloadedForKeysThatMayUnloadThem) {
  const LiveFolder folder("keys");
  nlohmann::json idle = LiveFolder::Model("idle", folder.CopyModel("model"));
  idle["idle_unload_s"] = 3600;
  folder.WriteConfig({idle});
  const std::string file = folder.path("keys.json");
  const auto draw = [&file](const std::string& name, const std::string& permissions) {
    const CommandResult drawn = RunDunlin({"key", "new", "--name", name, "--permission", permissions, "--file", file});
    EXPECT_EQ(drawn.status, 0) << drawn.err;
    return drawn.out.substr(0, drawn.out.find('\n'));
  };
  const std::string user = draw("user", "infer");
  const std::string operators = draw("operator", "infer,admin");
  const ServerProcess server(folder.config(), {"--set", "access.keys_file=" + file});
  ASSERT_TRUE(server.ready()) << server.Log();
  const auto generate = [&server](const std::string& key, const std::string& members) {
    const std::string body = R"({"model":"idle")" + members + "}";
    server::RawClient client(server.http());
    client.Send("POST /api/generate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key +
                "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.ReadReply();
  };
  EXPECT_THAT(generate(user, ""), HasSubstr(R"("done_reason":"load")"));
  EXPECT_THAT(generate(user, R"(,"keep_alive":0)"), HasSubstr(R"("done_reason":"load")")) << "others may use it";
  EXPECT_THAT(generate(operators, R"(,"keep_alive":0)"), HasSubstr(R"("done_reason":"unload")"));
  EXPECT_TRUE(ComesToLog(server, "unloaded until its next request")) << server.Log();
  EXPECT_THAT(generate(user, R"(,"keep_alive":0)"), HasSubstr(R"("done_reason":"unload")")) << "it is not there";
}

// Engines of models in memory begin nothing more.
void Pause(const std::string& address) {
  const auto stub = ::vllm::Control::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  ::vllm::PauseGenerationRequest request;
  request.set_mode(::vllm::PAUSE_MODE_KEEP);
  ::vllm::PauseGenerationResponse response;
  EXPECT_TRUE(stub->PauseGeneration(&context, request, &response).ok());
}

TEST(IdleModels, RequestsThatWaitForALoadAreBoundedAndMayLeave) {
  const LiveFolder folder("waits");
  folder.CopyModel("model");
  std::vector<nlohmann::json> models;
  for (const char* name : {"holder", "slow", "late"}) {
    nlohmann::json& model = models.emplace_back(LiveFolder::Model(name, folder.path("model")));
    model["idle_unload_s"] = 3600;
    model["kv_cache"]["memory_bytes"] = int64_t{256} << 20;
  }
  models[2]["load_wait_ms"] = 1;
  folder.WriteConfig(models);
  // One of them fits: a load waits for the end of the last request that uses another one.
  const ServerProcess server(
      folder.config(), {"--set", "scheduler.max_queued_requests=2", "--set", "memory.limit_bytes=800000000", "--set",
                        "memory.request_bytes=320000000", "--set", kAdminOfIdle});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  EXPECT_TRUE(CompleteOnce(server.http(), "holder").ok) << server.Log();
  Pause(server.grpc());
  server::RawClient user(server.http());
  user.Send(CompletionOf("holder"));
  EXPECT_TRUE(ComesToValue(server, "dunlin_requests_in_flight", 1));
  const auto complete = [&server] { return CompleteOnce(server.http(), "slow"); };
  std::future<Completion> first = std::async(std::launch::async, complete);
  EXPECT_TRUE(ComesToValue(server, WaitingFor("slow"), 1));
  EXPECT_TRUE(admin.ComesTo("slow", v1::MODEL_STATE_LOADING));
  EXPECT_TRUE(admin.StatusOf("slow").loads_on_request());
  EXPECT_EQ(admin.StatusOf("slow").waiting_requests(), 1U);
  EXPECT_THAT(PostOnce(server.http(), "/v2/repository/index", R"({"ready": true})"), HasSubstr("slow"));

  EXPECT_EQ(GenerateWithin(server.grpc(), "slow", std::chrono::milliseconds(300)), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(ComesToValue(server, WaitingFor("slow"), 1)) << "it does not wait beyond its deadline";
  {
    server::RawClient client(server.http());
    client.Send(CompletionOf("slow"));
    EXPECT_TRUE(ComesToValue(server, WaitingFor("slow"), 2));
  }
  EXPECT_TRUE(ComesToValue(server, WaitingFor("slow"), 1)) << "its client is gone";
  EXPECT_THAT(CompleteOnce(server.http(), "late").text,
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("is still being loaded (models[].load_wait_ms)"),
                    HasSubstr("MODEL_NOT_SERVED")));

  std::future<Completion> second = std::async(std::launch::async, complete);
  EXPECT_TRUE(ComesToValue(server, WaitingFor("slow"), 2));
  EXPECT_THAT(CompleteOnce(server.http(), "slow").text,
              AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("2 requests wait for the model to be loaded; limit is 2 "
                                                           "(scheduler.max_queued_requests)")));
  user.Close();
  EXPECT_TRUE(first.get().ok) << server.Log();
  EXPECT_TRUE(second.get().ok);
  EXPECT_EQ(admin.StatusOf("slow").waiting_requests(), 0U);
  EXPECT_EQ(admin.StatusOf("slow").loads(), 1U);
}

TEST(IdleModels, AModelThatCannotBeLoadedIsNotTriedByEveryRequest) {
  const LiveFolder folder("broken");
  const std::string path = folder.CopyModel("model");
  nlohmann::json broken = LiveFolder::Model("broken", path);
  broken["idle_unload_s"] = 3600;
  folder.WriteConfig({LiveFolder::Model("kept", folder.CopyModel("kept")), broken});
  const ServerProcess server(folder.config(), {"--set", kAdminOfIdle});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  std::ofstream(path + "/tokenizer.json") << "[]";
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(CompleteOnce(server.http(), "broken").text,
                AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("could not be loaded")));
  }
  const v1::ModelStatus status = admin.StatusOf("broken");
  EXPECT_EQ(status.state(), v1::MODEL_STATE_FAILED);
  EXPECT_THAT(status.failure(), HasSubstr("tokenizer.json"));
  EXPECT_GE(status.load_failures(), 1U);
  EXPECT_TRUE(CompleteOnce(server.http(), "kept").ok);
}

TEST(IdleModels, AnEncoderIsLoadedByEmbeddingsAndKnownAsOneBefore) {
  const LiveFolder folder("encoder");
  nlohmann::json encoder = LiveFolder::Model("encoder", DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_sentence");
  encoder["idle_unload_s"] = 3600;
  folder.WriteConfig({encoder});
  const ServerProcess server(folder.config(), {"--set", kAdminOfIdle});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const std::string infer =
      R"({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["a dunlin"]}]})";
  EXPECT_THAT(GetOnce(server.http(), "/v2/models/encoder/ready"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(PostOnce(server.http(), "/v2/models/encoder/infer", infer),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr(R"("embedding")")));
  EXPECT_TRUE(admin.Unload("encoder").ok());
  EXPECT_THAT(GetOnce(server.http(), "/v2/models/encoder/ready"), StartsWith("HTTP/1.1 400 "));
  const std::string embed = R"({"model": "encoder", "input": "a dunlin"})";
  EXPECT_THAT(PostOnce(server.http(), "/v1/embeddings", embed), StartsWith("HTTP/1.1 503 "));
  EXPECT_TRUE(admin.Load("encoder").ok());
  EXPECT_THAT(PostOnce(server.http(), "/v1/embeddings", embed), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(admin.StatusOf("encoder").loads(), 2U);
  EXPECT_THAT(PostOnce(server.http(), "/api/embed", R"({"model": "encoder", "input": "a dunlin", "keep_alive": 0})"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr(R"("embeddings":[[)")));
  EXPECT_TRUE(admin.ComesTo("encoder", v1::MODEL_STATE_UNLOADED)) << "after its answer";
}

TEST(IdleModels, TheLeastRecentlyUsedOneMakesRoomForAnother) {
  const LiveFolder folder("lru");
  std::vector<nlohmann::json> models;
  folder.CopyModel("model");
  for (const char* name : {"a", "b", "c"}) {
    nlohmann::json model = LiveFolder::Model(name, folder.path("model"));
    model["idle_unload_s"] = 3600;
    model["kv_cache"]["memory_bytes"] = int64_t{256} << 20;
    models.push_back(model);
  }
  folder.WriteConfig(models);
  // Two of them fit: each takes 300 MB, requests for three take 320 MB, the process 40 MB.
  const ServerProcess server(folder.config(),
                             {"--set", "memory.limit_bytes=1100000000", "--set", "memory.request_bytes=320000000"});
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  for (const char* name : {"a", "b", "a", "c"}) {
    EXPECT_TRUE(CompleteOnce(server.http(), name).ok) << name << ": " << server.Log();
    EXPECT_TRUE(ComesToValue(server, "dunlin_requests_in_flight", 0)) << "its use has ended, too";
  }
  EXPECT_EQ(admin.StatusOf("a").state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(admin.StatusOf("c").state(), v1::MODEL_STATE_READY);
  EXPECT_TRUE(admin.ComesTo("b", v1::MODEL_STATE_UNLOADED));
  EXPECT_EQ(admin.StatusOf("b").evictions(), 1U);
  EXPECT_EQ(admin.StatusOf("b").idle_unloads(), 0U);
  EXPECT_TRUE(CompleteOnce(server.http(), "b").ok) << "it comes back when it is asked for";
}

}  // namespace
}  // namespace dunlin::integration
