// SPDX-License-Identifier: Apache-2.0
// inference.GRPCInferenceService. What tells of the server and its models reads constant tables of a few rows, so it
// answers on gRPC's own thread, even while the server is full, loading or draining. Any of gRPC's threads.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kserve/grpc_service.grpc.pb.h"
#include "server/fronts/kserve/infer_translators.h"
#include "server/fronts/kserve/model_statistics.h"
#include "server/fronts/kserve/stream_call.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/embed_call.h"
#include "server/grpc_calls/generation_unary.h"
#include "server/models/model_lifecycle.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server::kserve {

namespace methods {

// The service with every method in its raw form.
using Grpc = inference::GRPCInferenceService;
using Live = Grpc::WithRawCallbackMethod_ServerLive<Grpc::Service>;
using Ready = Grpc::WithRawCallbackMethod_ServerReady<Live>;
using ModelReady = Grpc::WithRawCallbackMethod_ModelReady<Ready>;
using Metadata = Grpc::WithRawCallbackMethod_ServerMetadata<ModelReady>;
using ModelMetadata = Grpc::WithRawCallbackMethod_ModelMetadata<Metadata>;
using Infer = Grpc::WithRawCallbackMethod_ModelInfer<ModelMetadata>;
using StreamInfer = Grpc::WithRawCallbackMethod_ModelStreamInfer<Infer>;
using Config = Grpc::WithRawCallbackMethod_ModelConfig<StreamInfer>;
using Statistics = Grpc::WithRawCallbackMethod_ModelStatistics<Config>;
using Index = Grpc::WithRawCallbackMethod_RepositoryIndex<Statistics>;
using Load = Grpc::WithRawCallbackMethod_RepositoryModelLoad<Index>;
using Unload = Grpc::WithRawCallbackMethod_RepositoryModelUnload<Load>;
using Trace = Grpc::WithRawCallbackMethod_TraceSetting<Unload>;
using All = Grpc::WithRawCallbackMethod_LogSettings<Trace>;

}  // namespace methods

class InferenceService final : public methods::All {
 public:
  // core and statistics outlive the service. version: of the server, for clients.
  InferenceService(ServingCore* core, const kserve::ModelStatistics* statistics, std::string version)
      : core_(core), admission_(core), statistics_(statistics), version_(std::move(version)) {}

 private:
  using Context = grpc::CallbackServerContext;
  using Wire = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;

  Unary* ServerLive(Context* context, const Wire* request, Wire* response) override;
  Unary* ServerReady(Context* context, const Wire* request, Wire* response) override;
  Unary* ModelReady(Context* context, const Wire* request, Wire* response) override;
  Unary* ServerMetadata(Context* context, const Wire* request, Wire* response) override;
  Unary* ModelMetadata(Context* context, const Wire* request, Wire* response) override;
  Unary* ModelConfig(Context* context, const Wire* request, Wire* response) override;
  Unary* ModelStatistics(Context* context, const Wire* request, Wire* response) override;
  Unary* RepositoryIndex(Context* context, const Wire* request, Wire* response) override;
  Unary* RepositoryModelLoad(Context* context, const Wire* request, Wire* response) override;
  Unary* RepositoryModelUnload(Context* context, const Wire* request, Wire* response) override;
  Unary* TraceSetting(Context* context, const Wire* request, Wire* response) override;
  Unary* LogSettings(Context* context, const Wire* request, Wire* response) override;
  Unary* ModelInfer(Context* context, const Wire* request, Wire* response) override;
  StreamCall::Reactor* ModelStreamInfer(Context* context) override;

  // Answers with what `work` makes of the message and the caller.
  template <class Request, class Response>
  Unary* Answer(
      const char* method, Context* context, const Wire& message, Wire* response,
      absl::FunctionRef<absl::Status(const Principal& caller, const Request& request, Response* response)> work) const;
  // Answers with the status that `start` gives to `done`.
  template <class Request>
  Unary* Change(
      const char* method, Context* context, const Wire& message,
      absl::FunctionRef<void(const Principal& caller, const Request& request, ModelLifecycle::Done done)> start) const;
  // NOT_FOUND for a model that is not served or that the caller may not use, and for another version than its one;
  // UNAVAILABLE while models are being loaded.
  absl::StatusOr<NamedModel> Find(const Principal& caller, const std::string& name, const std::string& version) const;

  ServingCore* const core_;
  const CallAdmission admission_;
  const kserve::ModelStatistics* const statistics_;
  const std::string version_;
  const GenerationMethod generate_ = {&admission_, "/inference.GRPCInferenceService/ModelInfer",
                                      [] { return std::make_unique<GenerateTranslator>(Rpc::kInfer); }};
  const EmbedMethod embed_ = {&admission_, "/inference.GRPCInferenceService/ModelInfer",
                              [] { return std::make_unique<EmbedTranslator>(); }};
};

}  // namespace dunlin::server::kserve
