// SPDX-License-Identifier: Apache-2.0
// An Edge on a free loopback port over the models of tests/server/serving/test_models.h, and a gRPC client for it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dunlin/v1/generation.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/edge/edge.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {

// What a client saw of one call.
struct Reply {
  struct Output {
    std::string text;
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;
    std::vector<int32_t> num_top;
    int num_finishes = 0;
    v1::Finish finish;
  };
  std::map<int, Output> outputs;  // by index
  std::vector<v1::TokenLogprob> prompt_logprobs;
  std::vector<v1::GenerateResponse> messages;
  grpc::Status status;
  google::rpc::Status details;  // parsed from grpc-status-details-bin
  std::multimap<std::string, std::string> initial_metadata;
  std::multimap<std::string, std::string> trailing_metadata;

  template <class Detail>
  Detail Get() const {
    Detail detail;
    for (const auto& any : details.details()) {
      if (any.UnpackTo(&detail)) return detail;
    }
    return Detail();
  }
  std::string reason() const { return Get<google::rpc::ErrorInfo>().reason(); }
};

struct EdgeServerOptions {
  Limits limits;
  engine::EngineOptions engine;
  EdgeOptions server;
  bool serving = true;
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // of its channels; null: plain text
};

class EdgeServer {
 public:
  explicit EdgeServer(EdgeServerOptions options = {});
  ~EdgeServer();

  Edge& server() { return server_; }
  TestModels& models() { return models_; }
  RuntimeControl& control() { return models_.control(); }
  ModelRepository& repository() { return models_.repository(); }
  RecordingObserver& observer() { return observer_; }
  const ServedModel& model(const std::string& name) const { return models_.model(name); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // A channel with its own connection.
  std::shared_ptr<grpc::Channel> NewChannel() const;
  std::unique_ptr<v1::GenerationService::Stub> stub() const { return v1::GenerationService::NewStub(channel_); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  using Setup = std::function<void(grpc::ClientContext*)>;
  // Runs a call to its end. setup may add metadata or a deadline (30 s otherwise).
  Reply Generate(const v1::GenerateRequest& request, const Setup& setup = nullptr) const;

 private:
  TestModels models_;
  RecordingObserver observer_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  Edge server_;
  int port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
};

// The rest of a stream, into what has been seen of it.
void ReadAll(grpc::ClientReader<v1::GenerateResponse>* reader, grpc::ClientContext* context, Reply* reply);
void Take(const v1::GenerateResponse& message, Reply* reply);

// {model: "tiny", text, max_tokens}, greedy.
v1::GenerateRequest TextRequest(const std::string& text, int max_tokens);

}  // namespace dunlin::server
