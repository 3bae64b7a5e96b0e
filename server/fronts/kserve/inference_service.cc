// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/inference_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/kserve/infer_request.h"
#include "server/fronts/kserve/model_documents.h"
#include "server/fronts/kserve/repository_calls.h"
#include "server/fronts/kserve/server_settings.h"
#include "server/fronts/kserve/stream_requests.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server::kserve {

namespace {

// reactor: the context's own, which it gives once.
void Finish(grpc::ServerUnaryReactor* reactor, grpc::CallbackServerContext* context, const absl::Status& status) {
  const GrpcReply reply = ToGrpcReply(status);
  AddTrailers(reply, context);
  EchoRequestId(reply.status, context);
  reactor->Finish(reply.status);
}

grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Finish(reactor, context, status);
  return reactor;
}

}  // namespace

template <class Request, class Response>
grpc::ServerUnaryReactor* InferenceService::Answer(
    const char* method, Context* context, const Wire& message, Wire* response,
    absl::FunctionRef<absl::Status(const Principal& caller, const Request& request, Response* response)> work) const {
  Response answer;
  absl::StatusOr<Principal> caller = CallerOf(*core_, method, *context);
  absl::Status status = caller.status();
  Request request;
  if (status.ok()) status = ParseWire(message, &request);
  if (status.ok()) status = work(*caller, request, &answer);
  if (status.ok()) *response = SerializeWire(answer);
  return Finished(context, status);
}

template <class Request>
grpc::ServerUnaryReactor* InferenceService::Change(
    const char* method, Context* context, const Wire& message,
    absl::FunctionRef<void(const Principal& caller, const Request& request, ModelLifecycle::Done done)> start) const {
  absl::StatusOr<Principal> caller = CallerOf(*core_, method, *context);
  if (!caller.ok()) return Finished(context, caller.status());
  Request request;
  if (absl::Status s = ParseWire(message, &request); !s.ok()) return Finished(context, s);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  start(*caller, request, [reactor, context](const absl::Status& status) { Finish(reactor, context, status); });
  return reactor;
}

absl::StatusOr<NamedModel> InferenceService::Find(const Principal& caller, const std::string& name,
                                                  const std::string& version) const {
  absl::StatusOr<NamedModel> lease = FindFor(*core_, caller, name);
  if (!lease.ok() && core_->refusal() == AdmissionRefusal::kLoading) {
    return core_->StatusOf(AdmissionRefusal::kLoading);
  }
  if (lease.ok() && !IsServedVersion(version)) return UnknownModel(absl::StrCat(name, "/versions/", version));
  return lease;
}

grpc::ServerUnaryReactor* InferenceService::ServerLive(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      "/inference.GRPCInferenceService/ServerLive", context, *request, response,
      [](const Principal& /*caller*/, const inference::ServerLiveRequest& /*request*/,
         inference::ServerLiveResponse* answer) -> absl::Status {
        answer->set_live(true);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::ServerReady(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      "/inference.GRPCInferenceService/ServerReady", context, *request, response,
      [this](const Principal& /*caller*/, const inference::ServerReadyRequest& /*request*/,
             inference::ServerReadyResponse* answer) -> absl::Status {
        answer->set_ready(!core_->refusal().has_value());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::ModelReady(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      "/inference.GRPCInferenceService/ModelReady", context, *request, response,
      [this](const Principal& caller, const inference::ModelReadyRequest& asked,
             inference::ModelReadyResponse* answer) -> absl::Status {
        const bool taken = Find(caller, asked.name(), asked.version()).ok() ||
                           IsLoadedByRequest(*core_, caller, asked.name(), asked.version());
        answer->set_ready(taken && !core_->refusal().has_value());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::ServerMetadata(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "/inference.GRPCInferenceService/ServerMetadata", context, *request, response,
      [this](const Principal& /*caller*/, const inference::ServerMetadataRequest& /*request*/,
             inference::ServerMetadataResponse* answer) -> absl::Status {
        DescribeServer(version_, answer);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::ModelMetadata(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      "/inference.GRPCInferenceService/ModelMetadata", context, *request, response,
      [this](const Principal& caller, const inference::ModelMetadataRequest& asked,
             inference::ModelMetadataResponse* answer) -> absl::Status {
        const absl::StatusOr<NamedModel> model = Find(caller, asked.name(), asked.version());
        if (model.ok()) DescribeModel(*model, answer);
        return model.status();
      });
}

grpc::ServerUnaryReactor* InferenceService::ModelConfig(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      "/inference.GRPCInferenceService/ModelConfig", context, *request, response,
      [this](const Principal& caller, const inference::ModelConfigRequest& asked,
             inference::ModelConfigResponse* answer) -> absl::Status {
        const absl::StatusOr<NamedModel> model = Find(caller, asked.name(), asked.version());
        if (model.ok()) DescribeConfig(*model, answer->mutable_config());
        return model.status();
      });
}

grpc::ServerUnaryReactor* InferenceService::ModelStatistics(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      "/inference.GRPCInferenceService/ModelStatistics", context, *request, response,
      [this](const Principal& caller, const inference::ModelStatisticsRequest& asked,
             inference::ModelStatisticsResponse* answer) -> absl::Status {
        std::string name;  // "": of all
        if (!asked.name().empty()) {
          const absl::StatusOr<NamedModel> found = Find(caller, asked.name(), asked.version());
          if (!found.ok()) return found.status();
          name = found->model->name;
        }
        for (const ModelLease& model : ModelsFor(*core_, caller)) {
          if (name.empty() || name == model->name) statistics_->Fill(*model, answer->add_model_stats());
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::RepositoryIndex(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      "/inference.GRPCInferenceService/RepositoryIndex", context, *request, response,
      [this](const Principal& caller, const inference::RepositoryIndexRequest& asked,
             inference::RepositoryIndexResponse* answer) -> absl::Status {
        DescribeIndex(*core_, caller, asked.ready(), answer);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::RepositoryModelLoad(Context* context, const Wire* request, Wire* response) {
  *response = SerializeWire(inference::RepositoryModelLoadResponse());
  return Change<inference::RepositoryModelLoadRequest>(
      "/inference.GRPCInferenceService/RepositoryModelLoad", context, *request,
      [this](const Principal& caller, const inference::RepositoryModelLoadRequest& asked, ModelLifecycle::Done done) {
        LoadModel(*core_, caller, asked.model_name(), !asked.parameters().empty(), std::move(done));
      });
}

grpc::ServerUnaryReactor* InferenceService::RepositoryModelUnload(Context* context, const Wire* request,
                                                                  Wire* response) {
  *response = SerializeWire(inference::RepositoryModelUnloadResponse());
  return Change<inference::RepositoryModelUnloadRequest>(
      "/inference.GRPCInferenceService/RepositoryModelUnload", context, *request,
      [this](const Principal& caller, const inference::RepositoryModelUnloadRequest& asked, ModelLifecycle::Done done) {
        UnloadModel(*core_, caller, asked.model_name(), std::move(done));
      });
}

grpc::ServerUnaryReactor* InferenceService::TraceSetting(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::TraceSettingRequest, inference::TraceSettingResponse>(
      "/inference.GRPCInferenceService/TraceSetting", context, *request, response,
      [this](const Principal& caller, const inference::TraceSettingRequest& asked,
             inference::TraceSettingResponse* answer) -> absl::Status {
        if (!asked.model_name().empty()) {
          if (absl::Status s = Find(caller, asked.model_name(), "").status(); !s.ok()) return s;
        }
        return AnswerTraceSetting(core_->traces(), asked, answer);
      });
}

grpc::ServerUnaryReactor* InferenceService::LogSettings(Context* context, const Wire* request, Wire* response) {
  return Answer<inference::LogSettingsRequest, inference::LogSettingsResponse>(
      "/inference.GRPCInferenceService/LogSettings", context, *request, response,
      [](const Principal& /*caller*/, const inference::LogSettingsRequest& asked,
         inference::LogSettingsResponse* answer) -> absl::Status { return AnswerLogSettings(asked, answer); });
}

grpc::ServerUnaryReactor* InferenceService::ModelInfer(Context* context, const Wire* request, Wire* response) {
  const Principal caller = PeekCaller(*core_, "/inference.GRPCInferenceService/ModelInfer", *context);
  if (Embeds(*core_, caller, Peek(*request).model)) return EmbedCall::Start(embed_, context, *request, response);
  return GenerationUnary::Start(generate_, context, *request, response);
}

StreamCall::Reactor* InferenceService::ModelStreamInfer(Context* context) {
  return StreamCall::Start(admission_, "/inference.GRPCInferenceService/ModelStreamInfer", context);
}

}  // namespace dunlin::server::kserve
