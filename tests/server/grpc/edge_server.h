// A GrpcServer on a free loopback port over real engines with scripted runtimes, and a client for it. Models: "tiny"
// (byte-level tokenizer of tests/golden/text, vocabulary 902, end of sequence 0), "bare" (the same, no tokenizer) and
// "encoder" (tests/golden/encoders/bert_sentence, really computed; control().held holds it too).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/grpc/grpc_server.h"
#include "tests/server/grpc/scripted_runtime.h"

namespace dunlin::server {

inline constexpr int32_t kTinyVocab = 902;
inline constexpr int32_t kTinyContext = 512;

class RecordingObserver : public RequestObserver {
 public:
  void OnTokenInterval(const std::string& model, engine::TimeNs interval) override;
  void OnFinished(const RequestRecord& record) override;
  // Waits until `count` calls have ended; what ended so far, in order.
  std::vector<RequestRecord> WaitFor(size_t count) const;
  int64_t intervals() const;

 private:
  mutable absl::Mutex mutex_;
  std::vector<RequestRecord> records_ ABSL_GUARDED_BY(mutex_);
  int64_t intervals_ ABSL_GUARDED_BY(mutex_) = 0;
};

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
  GrpcServerOptions server;
  bool serving = true;
};

class EdgeServer {
 public:
  explicit EdgeServer(EdgeServerOptions options = {});
  ~EdgeServer();

  GrpcServer& server() { return server_; }
  RuntimeControl& control() { return control_; }
  RecordingObserver& observer() { return observer_; }
  const ServedModel& model(const std::string& name) const { return *registry_.Find(name); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // A channel with its own connection.
  std::shared_ptr<grpc::Channel> NewChannel() const;
  std::unique_ptr<v1::GenerationService::Stub> stub() const { return v1::GenerationService::NewStub(channel_); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  using Setup = std::function<void(grpc::ClientContext*)>;
  // Runs a call to its end. setup may add metadata or a deadline (30 s otherwise).
  Reply Generate(const v1::GenerateRequest& request, const Setup& setup = nullptr) const;

 private:
  std::unique_ptr<ServedModel> MakeEncoder(const engine::EngineOptions& options);
  std::unique_ptr<ServedModel> MakeModel(const std::string& name, bool tokenizer, const engine::EngineOptions& options);

  RuntimeControl control_;
  RecordingObserver observer_;
  std::unique_ptr<kernels::Device> device_;
  ModelRegistry registry_;
  GrpcServer server_;
  int port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
};

// The rest of a stream, into what has been seen of it.
void ReadAll(grpc::ClientReader<v1::GenerateResponse>* reader, grpc::ClientContext* context, Reply* reply);
void Take(const v1::GenerateResponse& message, Reply* reply);

// {model: "tiny", text, max_tokens}, greedy.
v1::GenerateRequest TextRequest(const std::string& text, int max_tokens);

// Waits until `condition` holds, 10 s at most.
bool Eventually(const std::function<bool()>& condition);

}  // namespace dunlin::server
