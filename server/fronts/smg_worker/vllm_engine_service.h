// SPDX-License-Identifier: Apache-2.0
// vllm.grpc.engine.VllmEngine: what smg and other routers ask of a worker. One per server. Any of gRPC's threads.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/fronts/smg_worker/engine_model.h"
#include "server/fronts/smg_worker/kv_event_stream.h"
#include "server/fronts/smg_worker/server_facts.h"
#include "server/fronts/smg_worker/tokenizer_archive.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/embed_call.h"
#include "server/grpc_calls/generation_call.h"
#include "server/grpc_calls/running_calls.h"
#include "server/serving/core/serving_core.h"
#include "smg/vllm_engine.grpc.pb.h"

namespace dunlin::server {

// Every method takes its message unparsed.
template <class Service>
using WithRawVllmEngineMethods = ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_Generate<
    ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_Embed<
        ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_HealthCheck<
            ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_FlushCache<
                ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_StartProfile<
                    ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_StopProfile<
                        ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_Abort<
                            ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_GetModelInfo<
                                ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_GetServerInfo<
                                    ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_GetLoads<
                                        ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_GetTokenizer<
                                            ::vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_SubscribeKvEvents<
                                                Service>>>>>>>>>>>>;

class VllmEngineService final : public WithRawVllmEngineMethods<::vllm::grpc::engine::VllmEngine::Service> {
 public:
  // model: as EngineModel's. core outlives the service.
  VllmEngineService(ServingCore* core, std::string model);

  // What HealthCheck says; false until the first call.
  void SetServing(bool serving) { serving_.store(serving, std::memory_order_relaxed); }
  // Ends the subscriptions; no further ones begin.
  void OnModelGone(const std::string& model) { kv_streams_.EndOf(model); }
  void StartDraining() { kv_streams_.EndAll(); }

 private:
  using Reactor = grpc::ServerUnaryReactor;
  using StreamReactor = grpc::ServerWriteReactor<grpc::ByteBuffer>;
  using Context = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;

  StreamReactor* Generate(Context* context, const Buffer* request) override;
  Reactor* Embed(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* HealthCheck(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* FlushCache(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* StartProfile(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* StopProfile(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* Abort(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* GetModelInfo(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* GetServerInfo(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* GetLoads(Context* context, const Buffer* request, Buffer* response) override;
  StreamReactor* GetTokenizer(Context* context, const Buffer* request) override;
  StreamReactor* SubscribeKvEvents(Context* context, const Buffer* request) override;

  // A call that is answered on gRPC's thread: key, message, work, response.
  template <class Request, class Work>
  Reactor* Answer(const char* method, Context* context, const Buffer& request, Buffer* response, Work work);
  Reactor* RefuseProfiling(const char* method, Context* context, const Buffer& request, Buffer* response);
  // The described model. Errors: as LeaseFor; UNAVAILABLE while models load.
  absl::StatusOr<ModelLease> Lease(const Principal& caller) const;
  struct ModelLog {
    std::string model;
    std::shared_ptr<engine::KvEventLog> log;
  };
  absl::StatusOr<ModelLog> LogFor(const Context& context) const;

  ServingCore* const core_;
  const EngineModel model_;
  const absl::Time started_ = absl::Now();
  const CallAdmission admission_;
  RunningCalls running_;
  const GenerationMethod generate_;
  const EmbedMethod embed_;
  TokenizerArchives archives_;
  KvEventStreams kv_streams_;
  ThroughputMeter throughput_;
  std::atomic<bool> serving_{false};
};

}  // namespace dunlin::server
