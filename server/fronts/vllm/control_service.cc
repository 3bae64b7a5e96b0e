// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/control_service.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/alarm.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/fronts/vllm/control_call.h"
#include "server/fronts/vllm/lora_calls.h"
#include "server/fronts/vllm/server_info.h"
#include "server/fronts/vllm/sleep_calls.h"
#include "server/serving/record/entropy.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/model_changes.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;
using Service = VllmControlService;

constexpr std::chrono::milliseconds kPausePeriod{10};  // how often a call that waits for a pause looks

using Call = VllmControlCall;

// A method whose work is done at once.
template <auto kWork>
struct Answer;
template <typename Request, typename Response, absl::Status (*kWork)(const Call&, const Request&, Response*)>
struct Answer<kWork> {
  static ServerUnaryReactor* Start(const Call& call, const ByteBuffer& message, ByteBuffer* response) {
    Request request;
    Response wire;
    absl::Status status = ParseWire(message, &request);
    if (status.ok()) status = kWork(call, request, &wire);
    if (status.ok()) *response = SerializeWire(wire);
    return Finished(call.context, status);
  }
};

absl::Status GetServerInfo(const Call& call, const ::vllm::GetServerInfoRequest&, ::vllm::ServerInfo* wire) {
  const absl::StatusOr<ModelLease> model = ControlledModel(*call.service->core(), call.caller);
  if (!model.ok()) return model.status();
  DescribeServer(**model, call.service->sources().version, call.service->instance_id(), wire);
  wire->mutable_rl_capabilities()->set_sleep_mode_enabled(CheckMayChangeModels(*call.service->core()).ok());
  return absl::OkStatus();
}

absl::Status GetModelInfo(const Call& call, const ::vllm::GetModelInfoRequest&, ::vllm::ModelInfo* wire) {
  const absl::StatusOr<ModelLease> model = ControlledModel(*call.service->core(), call.caller);
  if (!model.ok()) return model.status();
  DescribeModel(**model, wire);
  return absl::OkStatus();
}

absl::Status Shutdown(const Call& call, const ::vllm::ShutdownRequest&, ::vllm::ShutdownResponse*) {
  if (call.service->sources().shut_down == nullptr) {
    return MakeError(Reason::kNotImplemented, "this process cannot be shut down from outside");
  }
  call.service->sources().shut_down();
  return absl::OkStatus();
}

absl::Status Abort(const Call& call, const ::vllm::AbortRequest& request, ::vllm::AbortResponse*) {
  for (const std::string& id : request.request_ids()) call.service->sources().abort(id, call.caller);
  return absl::OkStatus();
}

absl::Status GetKvEventSources(const Call& call, const ::vllm::GetKvEventSourcesRequest&,
                               ::vllm::GetKvEventSourcesResponse* wire) {
  const absl::StatusOr<ModelLease> model = ControlledModel(*call.service->core(), call.caller);
  if (!model.ok()) return model.status();
  if (call.service->sources().kv_event_source == nullptr) return absl::OkStatus();
  const std::optional<EventPublisherOptions> source = call.service->sources().kv_event_source((*model)->name);
  if (!source.has_value()) return absl::OkStatus();
  DescribeKvEventSource(*source, (*model)->engine_options.kv_events.max_batches, wire->add_sources());
  return absl::OkStatus();
}

absl::Status ResumeGeneration(const Call& call, const ::vllm::ResumeGenerationRequest&,
                              ::vllm::ResumeGenerationResponse*) {
  ++call.service->resumes();
  for (const ModelLease& model : GeneratingModels(*call.service->core(), call.caller)) model->engine->Resume();
  return absl::OkStatus();
}

bool Paused(const std::vector<ModelLease>& models) {
  return std::all_of(models.begin(), models.end(),
                     [](const ModelLease& model) { return model->engine->stats().paused; });
}

absl::Status IsPaused(const Call& call, const ::vllm::IsPausedRequest&, ::vllm::IsPausedResponse* wire) {
  const absl::StatusOr<ModelLease> model = ControlledModel(*call.service->core(), call.caller);
  if (!model.ok()) return model.status();
  wire->set_paused(Paused(GeneratingModels(*call.service->core(), call.caller)));
  return absl::OkStatus();
}

absl::Status IsSleeping(const Call& call, const ::vllm::IsSleepingRequest&, ::vllm::IsSleepingResponse* wire) {
  wire->set_sleeping(AnySleeps(*call.service));
  return absl::OkStatus();
}

template <typename Request, typename Response>
absl::Status CannotUpdateWeights(const Call&, const Request&, Response*) {
  return MakeError(Reason::kNotImplemented, "this server's weights are those of its start: they cannot be updated");
}

std::optional<engine::PauseMode> PauseModeOf(::vllm::PauseMode mode) {
  switch (mode) {
    case ::vllm::PAUSE_MODE_UNSPECIFIED:
    case ::vllm::PAUSE_MODE_ABORT:
      return engine::PauseMode::kAbort;
    case ::vllm::PAUSE_MODE_WAIT:
      return engine::PauseMode::kWait;
    case ::vllm::PAUSE_MODE_KEEP:
      return engine::PauseMode::kKeep;
    default:
      return std::nullopt;
  }
}

// Ends when every engine has paused, when they are resumed, or when the client leaves. Owns itself until OnDone.
class PauseCall final : public ServerUnaryReactor {
 public:
  static ServerUnaryReactor* Start(const Call& call, const ByteBuffer& message, ByteBuffer* response) {
    ::vllm::PauseGenerationRequest request;
    if (absl::Status parsed = ParseWire(message, &request); !parsed.ok()) return Finished(call.context, parsed);
    const std::optional<engine::PauseMode> mode = PauseModeOf(request.mode());
    if (!mode.has_value()) {
      return Finished(call.context, InvalidField("mode", absl::StrCat("is ", static_cast<int>(request.mode())),
                                                 "PAUSE_MODE_ABORT, PAUSE_MODE_WAIT or PAUSE_MODE_KEEP"));
    }
    const absl::StatusOr<ModelLease> model = ControlledModel(*call.service->core(), call.caller);
    if (!model.ok()) return Finished(call.context, model.status());
    auto* reactor = new PauseCall(call);
    for (const ModelLease& paused : reactor->models_) {
      paused->engine->Pause(*mode);
      if (!request.has_clear_cache() || request.clear_cache()) paused->engine->ClearPrefixCache();
    }
    *response = SerializeWire(::vllm::PauseGenerationResponse());
    reactor->Look();
    return reactor;
  }

 private:
  explicit PauseCall(const Call& call)
      : service_(call.service),
        context_(call.context),
        resumes_(call.service->resumes()),
        models_(GeneratingModels(*call.service->core(), call.caller)) {}

  void OnDone() override { delete this; }

  void Look() {
    if (context_->IsCancelled()) return End(absl::CancelledError());
    if (service_->resumes() != resumes_) {
      return End(MakeError(Reason::kCancelled, "generation was resumed before it had paused"));
    }
    if (Paused(models_)) return End(absl::OkStatus());
    alarm_.Set(std::chrono::system_clock::now() + kPausePeriod, [this](bool) { Look(); });
  }

  void End(const absl::Status& status) {
    const grpc::Status end = ToGrpcStatus(status);
    EchoRequestId(end, context_);
    models_.clear();
    Finish(end);
  }

  Service* const service_;
  CallbackServerContext* const context_;
  const uint64_t resumes_;
  std::vector<ModelLease> models_;
  grpc::Alarm alarm_;
};

struct Method {
  const char* name;  // as the endpoint table has it
  ServerUnaryReactor* (*start)(const Call& call, const ByteBuffer& message, ByteBuffer* response);
};

template <typename Request, typename Response>
constexpr auto kNoUpdate = &Answer<&CannotUpdateWeights<Request, Response>>::Start;

constexpr Method kMethods[] = {
    {"/vllm.Control/GetServerInfo", &Answer<&GetServerInfo>::Start},
    {"/vllm.Control/GetModelInfo", &Answer<&GetModelInfo>::Start},
    {"/vllm.Control/Shutdown", &Answer<&Shutdown>::Start},
    {"/vllm.Control/Abort", &Answer<&Abort>::Start},
    {"/vllm.Control/LoadLora", &StartLoadLora},
    {"/vllm.Control/UnloadLora", &StartUnloadLora},
    {"/vllm.Control/ListLoras", &Answer<&ListLoras>::Start},
    {"/vllm.Control/GetKvEventSources", &Answer<&GetKvEventSources>::Start},
    {"/vllm.Control/PauseGeneration", &PauseCall::Start},
    {"/vllm.Control/ResumeGeneration", &Answer<&ResumeGeneration>::Start},
    {"/vllm.Control/IsPaused", &Answer<&IsPaused>::Start},
    {"/vllm.Control/Sleep", &StartSleep},
    {"/vllm.Control/WakeUp", &StartWakeUp},
    {"/vllm.Control/IsSleeping", &Answer<&IsSleeping>::Start},
    {"/vllm.Control/InitWeightTransferEngine",
     kNoUpdate<::vllm::InitWeightTransferEngineRequest, ::vllm::InitWeightTransferEngineResponse>},
    {"/vllm.Control/StartWeightUpdate", kNoUpdate<::vllm::StartWeightUpdateRequest, ::vllm::StartWeightUpdateResponse>},
    {"/vllm.Control/StartDraftWeightUpdate",
     kNoUpdate<::vllm::StartDraftWeightUpdateRequest, ::vllm::StartDraftWeightUpdateResponse>},
    {"/vllm.Control/UpdateWeights", kNoUpdate<::vllm::UpdateWeightsRequest, ::vllm::UpdateWeightsResponse>},
    {"/vllm.Control/FinishWeightUpdate",
     kNoUpdate<::vllm::FinishWeightUpdateRequest, ::vllm::FinishWeightUpdateResponse>},
    {"/vllm.Control/UpdateWeightVersion",
     kNoUpdate<::vllm::UpdateWeightVersionRequest, ::vllm::UpdateWeightVersionResponse>},
    {"/vllm.Control/GetWeightVersion", kNoUpdate<::vllm::GetWeightVersionRequest, ::vllm::GetWeightVersionResponse>},
};

// Of a method in its service, as gRPC counts them.
int IndexOf(const char* name) {
  const google::protobuf::ServiceDescriptor* service =
      ::vllm::GetServerInfoRequest::descriptor()->file()->FindServiceByName("Control");
  const std::string method = std::string(name).substr(std::string_view("/vllm.Control/").size());
  const google::protobuf::MethodDescriptor* found = service->FindMethodByName(method);
  DUNLIN_CHECK(found != nullptr, "the table names methods of the service");
  return found->index();
}

}  // namespace

VllmControlService::VllmControlService(ServingCore* core, VllmControlSources sources)
    : core_(core), sources_(std::move(sources)), instance_id_(DrawRequestId()) {
  for (const Method& method : kMethods) {
    const auto start = [this, &method](CallbackServerContext* context, const ByteBuffer* message,
                                       ByteBuffer* response) -> ServerUnaryReactor* {
      const absl::StatusOr<Principal> caller = CallerOf(*core_, method.name, *context);
      if (!caller.ok()) return Finished(context, caller.status());
      return method.start({this, context, *caller}, *message, response);
    };
    MarkMethodRawCallback(IndexOf(method.name),
                          new grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>(start));
  }
}

}  // namespace dunlin::server
