// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/vllm_engine_service.h"

#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/fronts/smg_worker/embed_messages.h"
#include "server/fronts/smg_worker/generate_translator.h"
#include "server/fronts/smg_worker/tokenizer_stream.h"
#include "server/grpc_calls/generation_stream.h"
#include "server/grpc_calls/refused_call.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/resolve.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

namespace wire = ::vllm::grpc::engine;
namespace common = ::smg::grpc::common;

constexpr char kLoadsVersion[] = "1";  // of the form of GetLoadsResponse
constexpr char kGenerate[] = "/vllm.grpc.engine.VllmEngine/Generate";
constexpr char kEmbed[] = "/vllm.grpc.engine.VllmEngine/Embed";
constexpr char kHealthCheck[] = "/vllm.grpc.engine.VllmEngine/HealthCheck";
constexpr char kFlushCache[] = "/vllm.grpc.engine.VllmEngine/FlushCache";
constexpr char kStartProfile[] = "/vllm.grpc.engine.VllmEngine/StartProfile";
constexpr char kStopProfile[] = "/vllm.grpc.engine.VllmEngine/StopProfile";
constexpr char kAbort[] = "/vllm.grpc.engine.VllmEngine/Abort";
constexpr char kGetModelInfo[] = "/vllm.grpc.engine.VllmEngine/GetModelInfo";
constexpr char kGetServerInfo[] = "/vllm.grpc.engine.VllmEngine/GetServerInfo";
constexpr char kGetLoads[] = "/vllm.grpc.engine.VllmEngine/GetLoads";
constexpr char kGetTokenizer[] = "/vllm.grpc.engine.VllmEngine/GetTokenizer";
constexpr char kSubscribeKvEvents[] = "/vllm.grpc.engine.VllmEngine/SubscribeKvEvents";

}  // namespace

VllmEngineService::VllmEngineService(ServingCore* core, std::string model)
    : core_(core),
      model_(core, std::move(model)),
      admission_(core),
      generate_{&admission_, kGenerate, [this] { return std::make_unique<EngineGenerateTranslator>(&model_); },
                &running_},
      embed_{&admission_, kEmbed, [this] { return std::make_unique<EngineEmbedTranslator>(&model_); }} {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VllmEngineService::Generate(Context* context, const Buffer* request) {
  return GenerationStream::Start(generate_, context, *request);
}

grpc::ServerUnaryReactor* VllmEngineService::Embed(Context* context, const Buffer* request, Buffer* response) {
  return EmbedCall::Start(embed_, context, *request, response);
}

// work: absl::StatusOr<Response>(const Principal&, const Request&)
template <class Request, class Work>
grpc::ServerUnaryReactor* VllmEngineService::Answer(const char* method, Context* context, const Buffer& request,
                                                    Buffer* response, Work work) {
  const auto answer = [&]() -> absl::Status {
    const absl::StatusOr<Principal> caller = CallerOf(*core_, method, *context);
    if (!caller.ok()) return caller.status();
    Request message;
    if (absl::Status s = ParseWire(request, &message); !s.ok()) return s;
    const auto result = work(*caller, message);
    if (result.ok()) *response = SerializeWire(*result);
    return result.status();
  };
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const grpc::Status end = ToGrpcStatus(answer());
  EchoRequestId(end, context);
  reactor->Finish(end);
  return reactor;
}

absl::StatusOr<ModelLease> VllmEngineService::Lease(const Principal& caller) const {
  const std::string name = model_.Described(caller);
  absl::StatusOr<ModelLease> lease = LeaseFor(*core_, caller, name);
  const bool loading = core_->refusal() == AdmissionRefusal::kLoading;
  if (!lease.ok() && loading) return core_->StatusOf(AdmissionRefusal::kLoading);
  return lease;
}

grpc::ServerUnaryReactor* VllmEngineService::HealthCheck(Context* context, const Buffer* request, Buffer* response) {
  const auto check = [this](const Principal& /*caller*/,
                            const wire::HealthCheckRequest& /*request*/) -> absl::StatusOr<wire::HealthCheckResponse> {
    if (const auto refusal = core_->refusal()) return core_->StatusOf(*refusal);
    if (!serving_.load(std::memory_order_relaxed)) return core_->StatusOf(AdmissionRefusal::kDraining);
    wire::HealthCheckResponse health;
    health.set_healthy(true);
    health.set_message("serving");
    return health;
  };
  return Answer<wire::HealthCheckRequest>(kHealthCheck, context, *request, response, check);
}

grpc::ServerUnaryReactor* VllmEngineService::FlushCache(Context* context, const Buffer* request, Buffer* response) {
  const auto flush = [this](
                         const Principal& caller,
                         const common::FlushCacheRequest& /*request*/) -> absl::StatusOr<common::FlushCacheResponse> {
    const absl::StatusOr<ModelLease> model = Lease(caller);
    if (!model.ok()) return model.status();
    if (absl::Status s = CheckGenerates(**model); !s.ok()) return s;
    (*model)->engine->ClearPrefixCache();
    common::FlushCacheResponse done;
    done.set_success(true);
    done.set_message("the prefix cache is empty within a step");
    return done;
  };
  return Answer<common::FlushCacheRequest>(kFlushCache, context, *request, response, flush);
}

grpc::ServerUnaryReactor* VllmEngineService::RefuseProfiling(const char* method, Context* context,
                                                             const Buffer& request, Buffer* response) {
  const auto refuse = [](const Principal& /*caller*/,
                         const common::StopProfileRequest& /*request*/) -> absl::StatusOr<common::ProfileResponse> {
    return MakeError(Reason::kNotImplemented,
                     "this server records no profiles; its traces are OpenTelemetry's (docs/operations.md)");
  };
  return Answer<common::StopProfileRequest>(method, context, request, response, refuse);
}

grpc::ServerUnaryReactor* VllmEngineService::StartProfile(Context* context, const Buffer* request, Buffer* response) {
  return RefuseProfiling(kStartProfile, context, *request, response);
}

grpc::ServerUnaryReactor* VllmEngineService::StopProfile(Context* context, const Buffer* request, Buffer* response) {
  return RefuseProfiling(kStopProfile, context, *request, response);
}

grpc::ServerUnaryReactor* VllmEngineService::Abort(Context* context, const Buffer* request, Buffer* response) {
  const auto cancel = [this](const Principal& caller,
                             const wire::AbortRequest& message) -> absl::StatusOr<wire::AbortResponse> {
    for (const std::string& id : message.request_ids()) running_.Cancel(id, caller);
    return wire::AbortResponse();
  };
  return Answer<wire::AbortRequest>(kAbort, context, *request, response, cancel);
}

grpc::ServerUnaryReactor* VllmEngineService::GetModelInfo(Context* context, const Buffer* request, Buffer* response) {
  const auto describe =
      [this](const Principal& caller,
             const wire::GetModelInfoRequest& /*request*/) -> absl::StatusOr<wire::GetModelInfoResponse> {
    const absl::StatusOr<ModelLease> model = Lease(caller);
    if (!model.ok()) return model.status();
    return ModelInfoOf(**model, model_.Described(caller));
  };
  return Answer<wire::GetModelInfoRequest>(kGetModelInfo, context, *request, response, describe);
}

grpc::ServerUnaryReactor* VllmEngineService::GetServerInfo(Context* context, const Buffer* request, Buffer* response) {
  const auto describe =
      [this](const Principal& caller,
             const wire::GetServerInfoRequest& /*request*/) -> absl::StatusOr<wire::GetServerInfoResponse> {
    const absl::StatusOr<ModelLease> model = Lease(caller);
    if (!model.ok()) return model.status();
    return ServerInfoOf(**model, *core_, started_);
  };
  return Answer<wire::GetServerInfoRequest>(kGetServerInfo, context, *request, response, describe);
}

grpc::ServerUnaryReactor* VllmEngineService::GetLoads(Context* context, const Buffer* request, Buffer* response) {
  const auto measure = [this](const Principal& caller,
                              const wire::GetLoadsRequest& message) -> absl::StatusOr<wire::GetLoadsResponse> {
    if (message.dp_rank() != 0) return InvalidField("dp_rank", absl::StrCat("is ", message.dp_rank()), "0");
    const absl::StatusOr<ModelLease> model = Lease(caller);
    if (!model.ok()) return model.status();
    wire::GetLoadsResponse loads;
    loads.set_timestamp(absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()));
    loads.set_version(kLoadsVersion);
    loads.set_dp_rank_count(1);
    *loads.add_loads() = LoadOf(**model, *core_);
    const uint64_t generated = (*model)->any_engine()->stats().generation_tokens;
    loads.mutable_loads(0)->set_gen_throughput(throughput_.Update(generated, core_->now()));
    return loads;
  };
  return Answer<wire::GetLoadsRequest>(kGetLoads, context, *request, response, measure);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VllmEngineService::GetTokenizer(Context* context, const Buffer* request) {
  auto answer = admission_.Admit(kGetTokenizer, *context, request->Length(), CallAdmission::Kind::kText);
  if (const auto* refusal = std::get_if<CallRefusal>(&answer)) {
    return RefusedStream::Start(core_, context, refusal->reply());
  }
  auto admitted = std::get<AdmittedCall>(std::move(answer));
  std::string model = model_.Described(admitted.client.principal);
  return TokenizerStream::Start(core_, &archives_, context, std::move(admitted), std::move(model));
}

absl::StatusOr<VllmEngineService::ModelLog> VllmEngineService::LogFor(const Context& context) const {
  const absl::StatusOr<Principal> caller = CallerOf(*core_, kSubscribeKvEvents, context);
  if (!caller.ok()) return caller.status();
  const absl::StatusOr<ModelLease> model = Lease(*caller);
  if (!model.ok()) return model.status();
  ModelLog found{(*model)->name, nullptr};
  if ((*model)->engine != nullptr) found.log = (*model)->engine->kv_events();
  if (found.log == nullptr) {
    return MakeError(Reason::kNotImplemented,
                     "the model keeps no KV events; models[].kv_cache.event_batches turns them on");
  }
  return found;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VllmEngineService::SubscribeKvEvents(Context* context,
                                                                                 const Buffer* request) {
  absl::StatusOr<ModelLog> found = LogFor(*context);
  common::SubscribeKvEventsRequest message;
  absl::Status status = found.status();
  if (status.ok()) status = ParseWire(*request, &message);
  if (!status.ok()) return RefusedStream::Start(core_, context, ToGrpcReply(status));
  return KvEventStream::Start(core_, &kv_streams_, std::move(found->model), std::move(found->log),
                              message.start_sequence_number());
}

}  // namespace dunlin::server
