// SPDX-License-Identifier: Apache-2.0
// LoRA adapters of a served model: chosen by name in every protocol, listed, told in metrics; what a key allows.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dunlin/v1/generation.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "smg/vllm_engine.grpc.pb.h"
#include "tests/integration/process/adapters_fixture.h"
#include "vllm/control.grpc.pb.h"
#include "vllm/inference.grpc.pb.h"

namespace dunlin::integration {
namespace {

using server::RawClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ByDunlinV1(const std::shared_ptr<grpc::Channel>& channel, const std::string& model, v1::Execution* ran) {
  v1::GenerateRequest request;
  request.set_model(model);
  request.set_text(kTale);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(8);
  grpc::ClientContext context;
  const auto reader = v1::GenerationService::NewStub(channel)->Generate(&context, request);
  v1::GenerateResponse response;
  std::string text;
  while (reader->Read(&response)) {
    if (response.has_execution()) *ran = response.execution();
    text += response.text_delta();
  }
  const grpc::Status status = reader->Finish();
  return status.ok() ? text : status.error_message();
}

std::string ByVllm(const std::shared_ptr<grpc::Channel>& channel, const std::string& model, const std::string& lora) {
  ::vllm::GenerateRequest request;
  request.set_model(model);
  request.set_lora_name(lora);
  request.set_text(kTale);
  request.set_temperature(0);
  request.mutable_stopping()->set_max_new_tokens(8);
  ::vllm::GenerateResponse response;
  const auto stub = ::vllm::Inference::NewStub(channel);
  const grpc::Status status = CallRpc(stub.get(), &::vllm::Inference::Stub::Generate, request, &response);
  return status.ok() ? response.outputs().text() : status.error_message();
}

TEST_F(Adapters, AreChosenByNameInEveryProtocol) {
  const auto server = Serve({{"one", one_}, {"two", two_}}, {"--set", "protocols.vllm_engine_model=one"});
  const auto channel = grpc::CreateChannel(server->grpc(), grpc::InsecureChannelCredentials());
  const Completion base = CompleteOnce(server->http(), "demo");
  const Completion one = CompleteOnce(server->http(), "one");
  ASSERT_TRUE(base.ok) << base.text;
  ASSERT_TRUE(one.ok) << one.text;
  EXPECT_NE(one.text, base.text);
  EXPECT_NE(CompleteOnce(server->http(), "two").text, one.text);
  EXPECT_EQ(CompleteOnce(server->http(), "one@math-fp32").text, one.text);

  const nlohmann::json completion = JsonOf(PostOnce(
      server->http(), "/v1/completions",
      nlohmann::json{{"model", "one@efficient"}, {"prompt", kTale}, {"max_tokens", 8}, {"temperature", 0}}.dump()));
  EXPECT_EQ(completion["model"], "one@efficient");
  EXPECT_EQ(completion["dunlin"]["execution"]["adapter"], "one");
  EXPECT_EQ(completion["dunlin"]["execution"]["attention_backend"], "efficient");

  v1::Execution ran;
  EXPECT_EQ(ByDunlinV1(channel, "one", &ran), one.text);
  EXPECT_EQ(ran.adapter(), "one");
  EXPECT_EQ(ByDunlinV1(channel, "demo", &ran), base.text);
  EXPECT_EQ(ran.adapter(), "");
  EXPECT_EQ(ByVllm(channel, "one", ""), one.text);
  EXPECT_EQ(ByVllm(channel, "demo", "one"), one.text);
  EXPECT_EQ(ByVllm(channel, "", "one"), one.text);
  EXPECT_THAT(ByVllm(channel, "other", "one"), HasSubstr("lora_name"));
  EXPECT_THAT(ByVllm(channel, "", "three"), HasSubstr("lora_name"));

  const nlohmann::json infer = JsonOf(PostOnce(
      server->http(), "/v2/models/one/generate",
      nlohmann::json{{"text_input", kTale}, {"max_tokens", 8}, {"temperature", 0}, {"exclude_input_in_output", true}}
          .dump()));
  EXPECT_EQ(infer["model_name"], "one");
  EXPECT_EQ(infer["text_output"], one.text);

  ::vllm::grpc::engine::GetModelInfoResponse info;
  const auto engine = ::vllm::grpc::engine::VllmEngine::NewStub(channel);
  ASSERT_TRUE(CallRpc(engine.get(), &::vllm::grpc::engine::VllmEngine::Stub::GetModelInfo,
                      ::vllm::grpc::engine::GetModelInfoRequest(), &info)
                  .ok());
  EXPECT_EQ(info.served_model_name(), "one");
}

TEST_F(Adapters, ChatsOfEveryApiSayWhichOneRan) {
  const auto server = Serve({{"one", one_}});
  const auto messages = nlohmann::json::array({{{"role", "user"}, {"content", "What does the dunlin eat?"}}});
  const struct {
    const char* path;
    nlohmann::json body;
  } kRows[] = {
      {"/v1/chat/completions", {{"messages", messages}, {"max_tokens", 8}}},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 8}}},
      {"/v1/responses", {{"input", "What does the dunlin eat?"}, {"max_output_tokens", 8}}},
  };
  for (const auto& row : kRows) {
    nlohmann::json body = row.body;
    body["temperature"] = 0;
    body["model"] = "one";
    const nlohmann::json adapted = JsonOf(PostOnce(server->http(), row.path, body.dump()));
    ASSERT_TRUE(adapted.is_object()) << row.path;
    EXPECT_EQ(adapted["model"], "one") << row.path;
    EXPECT_EQ(adapted["dunlin"]["execution"]["adapter"], "one") << row.path << adapted.dump();
    body["model"] = "demo";
    const nlohmann::json base = JsonOf(PostOnce(server->http(), row.path, body.dump()));
    EXPECT_FALSE(base["dunlin"]["execution"].contains("adapter")) << row.path;
  }
  EXPECT_TRUE(ComesToLog(*server, R"( model="demo" adapter="one" profile=)"));
}

TEST_F(Adapters, AreListedWithTheirModel) {
  const auto server = Serve({{"one", one_}});
  const nlohmann::json list = JsonOf(GetOnce(server->http(), "/v1/models"));
  ASSERT_EQ(list["data"].size(), 2U) << list.dump();
  EXPECT_EQ(list["data"][1]["id"], "one");
  EXPECT_EQ(list["data"][1]["parent"], "demo");
  EXPECT_EQ(list["data"][1]["root"], one_);
  EXPECT_FALSE(list["data"][0].contains("parent"));
  EXPECT_EQ(JsonOf(GetOnce(server->http(), "/v1/models/one"))["parent"], "demo");
  EXPECT_THAT(GetOnce(server->http(), "/v2/models/one/ready"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(JsonOf(GetOnce(server->http(), "/v2/models/one"))["name"], "one");
  EXPECT_THAT(PostOnce(server->http(), "/v2/repository/index", ""), HasSubstr(R"("name":"one")"));

  const auto channel = grpc::CreateChannel(server->grpc(), grpc::InsecureChannelCredentials());
  const auto stub = v1::ModelService::NewStub(channel);
  v1::GetModelRequest request;
  request.set_name("demo");
  v1::GetModelResponse response;
  ASSERT_TRUE(CallRpc(stub.get(), &v1::ModelService::Stub::GetModel, request, &response).ok());
  ASSERT_EQ(response.model().adapters_size(), 1);
  EXPECT_EQ(response.model().adapters(0).path(), one_);
  EXPECT_EQ(response.model().adapters(0).rank(), 4);
  EXPECT_TRUE(response.model().adapters(0).loaded());
  EXPECT_EQ(response.model().max_adapters(), 4);
  request.set_name("one");
  ASSERT_TRUE(CallRpc(stub.get(), &v1::ModelService::Stub::GetModel, request, &response).ok());
  EXPECT_EQ(response.model().name(), "one");
  ::vllm::ListLorasResponse loras;
  const auto control = ::vllm::Control::NewStub(channel);
  ASSERT_TRUE(CallRpc(control.get(), &::vllm::Control::Stub::ListLoras, ::vllm::ListLorasRequest(), &loras).ok());
  ASSERT_EQ(loras.adapters_size(), 1);
  EXPECT_EQ(loras.adapters(0).lora_name(), "one");
}

TEST_F(Adapters, AKeyAllowsThemByTheirOwnNames) {
  const auto key = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"key", "new", "--name", name, "--file", folder_.path("keys.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult made = RunDunlin(arguments);
    EXPECT_EQ(made.status, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  };
  const std::string team = key("team", {"--model", "one"});
  const std::string other = key("other", {"--model", "demo"});
  const auto server = Serve({{"one", one_}}, {"--set", "access.keys_file=" + folder_.path("keys.json")});
  const auto ask = [&](const std::string& secret, const std::string& request) {
    RawClient client(server->http());
    client.Send(request + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret +
                "\r\nConnection: close\r\n");
    return client;
  };
  const auto complete = [&](const std::string& secret, const std::string& model) {
    const std::string body = nlohmann::json{{"model", model}, {"prompt", kTale}, {"max_tokens", 2}}.dump();
    RawClient client = ask(secret, "POST /v1/completions");
    client.Send("Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.ReadAll();
  };
  const auto list = [&](const std::string& secret) {
    RawClient client = ask(secret, "GET /v1/models");
    client.Send("\r\n");
    return client.ReadAll();
  };
  EXPECT_THAT(complete(team, "one"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(complete(team, "demo"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(complete(other, "demo"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(complete(other, "one"), StartsWith("HTTP/1.1 404 "));
  EXPECT_TRUE(ComesToLog(*server, "reason=\"adapter one not allowed\""));
  EXPECT_THAT(list(team), AllOf(HasSubstr(R"("id":"one")"), Not(HasSubstr(R"("id":"demo")")), Not(HasSubstr(one_))));
  EXPECT_THAT(list(other), AllOf(HasSubstr(R"("id":"demo")"), Not(HasSubstr(R"("id":"one")"))));
}

TEST_F(Adapters, MetricsNameThoseThatRun) {
  const auto server = Serve({{"one", one_}});
  const auto info = [&] {
    const std::string metrics = HttpGet(server->http(), "/metrics");
    const size_t at = metrics.find("vllm:lora_requests_info{");
    return at == std::string::npos ? "" : metrics.substr(at, metrics.find('\n', at) - at);
  };
  EXPECT_THAT(info(), AllOf(HasSubstr(R"(max_lora="4")"), HasSubstr(R"(running_lora_adapters="")")));
  CompletionStream stream(server->http(), "one", 8);
  ASSERT_TRUE(stream.Began());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (info().find(R"(running_lora_adapters="one")") == std::string::npos && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(info(), AllOf(HasSubstr(R"(running_lora_adapters="one")"), HasSubstr(R"(waiting_lora_adapters="")")));
  stream.Text();
  EXPECT_EQ(MetricValue(HttpGet(server->http(), "/metrics"), R"(dunlin_model_adapters{model_name="demo"})"), 1);
}

}  // namespace
}  // namespace dunlin::integration
