// SPDX-License-Identifier: Apache-2.0
// A gRPC server on a free port of loopback that answers Generate with what a test gave it, in order, and keeps the
// requests. Thread-safe.
#pragma once

#include <grpcpp/server.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"

namespace dunlin::integration {

struct Reply {
  std::vector<v1::GenerateResponse> responses;
  grpc::Status status;
  bool until_cancelled = false;  // after the responses wait for the client to cancel, 30 s at most
};

// A whole answer: the text in one message, then the finish.
Reply TextReply(const std::string& text);
v1::GenerateResponse TextResponse(const std::string& text);
v1::GenerateResponse ReasoningResponse(const std::string& text);
// A call whose arguments come in two deltas, and the finish TOOL_CALLS.
Reply CallReply(const std::string& id, const std::string& name, const std::string& arguments);

class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> models = {"scripted"});
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // For the next call; without one it ends with UNAVAILABLE.
  void Add(Reply reply);
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::vector<v1::GenerateRequest> requests() const;
  // Whether there are this many requests, or calls that the client cancelled, within 20 s.
  bool ComesToRequests(size_t count) const;
  bool ComesToCancelled(size_t count) const;

 private:
  class Generation final : public v1::GenerationService::Service {
   public:
    explicit Generation(ScriptedServer* owner) : owner_(*owner) {}
    grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                          grpc::ServerWriter<v1::GenerateResponse>* writer) override;

   private:
    ScriptedServer& owner_;
  };
  class Models final : public v1::ModelService::Service {
   public:
    explicit Models(std::vector<std::string> names) : names_(std::move(names)) {}
    grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                            v1::ListModelsResponse* response) override;

   private:
    const std::vector<std::string> names_;  // one that begins with "encoder" is an encoder
  };

  Generation generation_{this};
  Models models_;
  int port_ = 0;
  mutable absl::Mutex mutex_;  // guards the script and what was seen
  std::deque<Reply> replies_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  size_t num_cancelled_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dunlin::integration
