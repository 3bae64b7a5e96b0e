// SPDX-License-Identifier: Apache-2.0
// A server of the demo model with LoRA adapters, and its clients.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/process/adapter_files.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/live_server.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::integration {

inline constexpr char kMayChangeModels[] = "access.admin_without_keys=true";
inline constexpr char kTale[] = "Once upon a time";  // CompleteOnce's

inline nlohmann::json WithAdapters(const std::string& model,
                                   const std::vector<std::pair<std::string, std::string>>& adapters) {
  nlohmann::json settings = LiveFolder::Model("demo", model);
  settings["max_adapters"] = 4;
  settings["adapters"] = nlohmann::json::array();
  for (const auto& [name, path] : adapters) settings["adapters"].push_back({{"name", name}, {"path", path}});
  return settings;
}

inline std::string BodyOf(const std::string& reply) {
  const size_t head = reply.find("\r\n\r\n");
  return head == std::string::npos ? "" : reply.substr(head + 4);
}

inline nlohmann::json JsonOf(const std::string& reply) {
  return nlohmann::json::parse(BodyOf(reply), nullptr, /*allow_exceptions=*/false);
}

inline std::string LoadByHttp(const ServerProcess& server, const std::string& name, const std::string& path,
                              bool in_place = false) {
  nlohmann::json body = {{"lora_name", name}, {"lora_path", path}};
  if (in_place) body["load_inplace"] = true;
  return PostOnce(server.http(), "/v1/load_lora_adapter", body.dump());
}

inline std::string UnloadByHttp(const ServerProcess& server, const std::string& name) {
  return PostOnce(server.http(), "/v1/unload_lora_adapter", nlohmann::json{{"lora_name", name}}.dump());
}

// A server with the demo model, and what its adapters say.
class Adapters : public testing::Test {
 protected:
  Adapters()
      : folder_("adapters"),
        model_(folder_.CopyModel("model")),
        one_(WriteAdapter(folder_.path("one"), 1)),
        two_(WriteAdapter(folder_.path("two"), 2)) {}

  std::unique_ptr<ServerProcess> Serve(const std::vector<std::pair<std::string, std::string>>& adapters,
                                       std::vector<std::string> more = {"--set", kMayChangeModels}) {
    folder_.WriteConfig({WithAdapters(model_, adapters)});
    auto server = std::make_unique<ServerProcess>(folder_.config(), more);
    EXPECT_TRUE(server->ready()) << server->Log();
    return server;
  }

  const LiveFolder folder_;
  const std::string model_;
  const std::string one_;
  const std::string two_;
};

template <typename Stub, typename Request, typename Response>
grpc::Status CallRpc(Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return (stub->*method)(&context, request, response);
}

// A stream of the adapter, or of the model, which takes a while: with several outputs seconds.
class CompletionStream {
 public:
  CompletionStream(const std::string& http, const std::string& model, int num_outputs = 1) : client_(http) {
    const std::string body =
        nlohmann::json{{"model", model},     {"prompt", kTale}, {"max_tokens", 900},           {"temperature", 0},
                       {"ignore_eos", true}, {"stream", true},  {"attention_backend", "math"}, {"n", num_outputs}}
            .dump();
    client_.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // Whether its first event has come.
  bool Began() {
    read_ = client_.ReadUntil("\"text\":\"");
    return read_.starts_with("HTTP/1.1 200 ");
  }
  // Of a single output, once it has ended.
  std::string Text() {
    read_ += client_.ReadAll();
    EXPECT_THAT(read_, testing::HasSubstr("[DONE]"));
    std::string text;
    for (size_t at = read_.find("data: {"); at != std::string::npos; at = read_.find("data: {", at + 1)) {
      const nlohmann::json event =
          nlohmann::json::parse(read_.substr(at + 6, read_.find('\n', at) - at - 6), nullptr, false);
      if (event.is_object() && !event["choices"].empty()) text += event["choices"][0].value("text", "");
    }
    return text;
  }

 private:
  server::RawClient client_;
  std::string read_;
};

}  // namespace dunlin::integration
