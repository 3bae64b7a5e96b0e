// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/live_server.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/integration/process/demo_server.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::integration {
namespace {

using nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(60);

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

template <typename Stub, typename Request, typename Response>
grpc::Status Call(Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  return (stub->*method)(&context, request, response);
}

template <typename Request, typename Response>
grpc::Status Change(v1::ModelService::Stub* stub,
                    grpc::Status (v1::ModelService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const std::string& model) {
  Request request;
  request.set_name(model);
  Response response;
  return Call(stub, method, request, &response);
}

}  // namespace

LiveFolder::LiveFolder(const std::string& name)
    : path_(std::filesystem::temp_directory_path().string() + "/dunlin_live_" + name + "_" + std::to_string(getpid())) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}

LiveFolder::~LiveFolder() {
  std::filesystem::remove_all(path_);
}

std::string LiveFolder::CopyModel(const std::string& name) const {
  std::filesystem::create_directories(path(name));
  std::filesystem::copy(kDemoModel, path(name), std::filesystem::copy_options::recursive);
  return path(name);
}

json LiveFolder::Model(const std::string& name, const std::string& path) {
  return {{"name", name},
          {"path", path},
          {"device", "cpu"},
          {"precisions", {"fp32"}},
          {"kv_cache", {{"memory_bytes", 16 << 20}}}};
}

void LiveFolder::WriteConfig(const std::vector<json>& models) const {
  std::ofstream(config() + ".new") << json{{"models", models}};
  std::filesystem::rename(config() + ".new", config());
}

Completion CompleteOnce(const std::string& http, const std::string& model) {
  const std::string reply =
      PostOnce(http, "/v1/completions",
               json{{"model", model}, {"prompt", "Once upon a time"}, {"max_tokens", 8}, {"temperature", 0}}.dump());
  const size_t head = reply.find("\r\n\r\n");
  const json document = head == std::string::npos ? json() : json::parse(reply.substr(head + 4), nullptr, false);
  if (!reply.starts_with("HTTP/1.1 200 ") || !document.is_object()) return {false, reply};
  return {true, document["choices"][0].value("text", "")};
}

std::string GetOnce(const std::string& http, const std::string& path) {
  server::RawClient client(http);
  client.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return client.ReadReply();
}

std::string PostOnce(const std::string& http, const std::string& path, const std::string& body) {
  server::RawClient client(http);
  client.Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  return client.ReadReply();
}

SteadyLoad::SteadyLoad(const std::string& http, const std::string& model, const std::string& expected,
                       int num_clients) {
  for (int i = 0; i < num_clients; ++i) {
    threads_.emplace_back([this, http, model, expected] {
      while (!stop_) {
        const Completion completion = CompleteOnce(http, model);
        ++num_completed_;
        if (completion.ok && completion.text == expected) continue;
        const std::lock_guard lock(mutex_);
        failures_.push_back(completion.text);
      }
    });
  }
}

void SteadyLoad::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool SteadyLoad::ComesToCompleted(int count) const {
  return Eventually([&] { return num_completed_ >= count; });
}

std::vector<std::string> SteadyLoad::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

ModelAdmin::ModelAdmin(const std::string& grpc)
    : stub_(v1::ModelService::NewStub(grpc::CreateChannel(grpc, grpc::InsecureChannelCredentials()))),
      control_(::vllm::Control::NewStub(grpc::CreateChannel(grpc, grpc::InsecureChannelCredentials()))) {}

grpc::Status ModelAdmin::Load(const std::string& model) {
  return Change(stub_.get(), &v1::ModelService::Stub::LoadModel, model);
}

grpc::Status ModelAdmin::Unload(const std::string& model) {
  return Change(stub_.get(), &v1::ModelService::Stub::UnloadModel, model);
}

grpc::Status ModelAdmin::Reload(const std::string& model) {
  return Change(stub_.get(), &v1::ModelService::Stub::ReloadModel, model);
}

grpc::Status ModelAdmin::Sleep() {
  ::vllm::SleepResponse response;
  return Call(control_.get(), &::vllm::Control::Stub::Sleep, ::vllm::SleepRequest(), &response);
}

grpc::Status ModelAdmin::WakeUp() {
  ::vllm::WakeUpResponse response;
  return Call(control_.get(), &::vllm::Control::Stub::WakeUp, ::vllm::WakeUpRequest(), &response);
}

bool ModelAdmin::IsSleeping() {
  ::vllm::IsSleepingResponse response;
  EXPECT_TRUE(Call(control_.get(), &::vllm::Control::Stub::IsSleeping, ::vllm::IsSleepingRequest(), &response).ok());
  return response.sleeping();
}

v1::ModelStatus ModelAdmin::StatusOf(const std::string& model) {
  v1::GetModelRequest request;
  request.set_name(model);
  v1::GetModelResponse response;
  Call(stub_.get(), &v1::ModelService::Stub::GetModel, request, &response);
  return response.model().status();
}

bool ModelAdmin::ComesTo(const std::string& model, v1::ModelState state) {
  return Eventually([&] { return StatusOf(model).state() == state; });
}

double ResidentBytesOf(const ServerProcess& server) {
  std::ifstream statm("/proc/" + std::to_string(server.pid()) + "/statm");
  double pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

bool ComesToValue(const ServerProcess& server, const std::string& series, double value) {
  return Eventually([&] { return MetricValue(HttpGet(server.http(), "/metrics"), series) == value; });
}

bool ComesToMemory(const ServerProcess& server, double bytes) {
  return Eventually([&] { return ResidentBytesOf(server) <= bytes; });
}

}  // namespace dunlin::integration
