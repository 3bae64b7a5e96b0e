// SPDX-License-Identifier: Apache-2.0
// An edge over real models, with both ports, for tests that ask the same of gRPC and of HTTP: "demo" (models/demo in
// BF16 and FP32), "tiny" (a golden Llama: token ids alone), "vision" and "qwen-vision" (a golden Mistral 3 and
// Qwen 3.5 with images) and "encoder" (a golden sentence-transformers directory). One for the whole program. Thread
// rule: any thread once it has started.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "server/edge/edge.h"
#include "server/models/repository.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {

using Json = nlohmann::ordered_json;

struct HttpAnswer {
  int status = 0;
  std::string head;  // with the empty line
  std::string body;  // without the framing

  Json json() const { return Json::parse(body, nullptr, /*allow_exceptions=*/false); }
  // Of "data: {...}" lines, in order.
  std::vector<Json> events() const;
};

class ServedEdge {
 public:
  // Starts it with the first call.
  static ServedEdge& Get();

  HttpAnswer Post(const std::string& path, const std::string& body) const;
  HttpAnswer Fetch(const std::string& path) const;
  // A GenerateRequest in proto3's JSON.
  Reply Generate(const std::string& request) const;
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const std::string& http_address() const { return edge_.http_address(); }

 private:
  ServedEdge();
  HttpAnswer Send(const std::string& bytes) const;
  void Load(const std::string& name, const std::string& path, const std::vector<engine::Precision>& precisions);

  std::unique_ptr<kernels::Device> device_;
  ModelRepository models_;
  Edge edge_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace dunlin::server
