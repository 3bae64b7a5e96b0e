// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/embed_call.h"

#include <utility>
#include <variant>

#include "server/fronts/dunlin_v1/embed_messages.h"
#include "server/serving/key_limits.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

grpc::ServerUnaryReactor* EmbedCall::Start(ServingCore* core, grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer& message, grpc::ByteBuffer* response) {
  const engine::TimeNs now = core->now();
  std::shared_ptr<EmbedCall> call(new EmbedCall(core, context, message, response));
  call->self_ = call;
  absl::StatusOr<Principal> caller = CallerOf(core->access(), "/dunlin.v1.EmbeddingService/Embed", *context);
  if (!caller.ok()) {
    call->Finish({caller.status(), {}}, nullptr);
    return call.get();
  }
  std::variant<Admission::Ticket, AdmissionRefusal> answer = core->TryAdmit(message.Length());
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) {
    core->ReportRefused(*refusal, now);
    call->Finish({core->StatusOf(*refusal), {}}, nullptr);
    return call.get();
  }
  auto ticket = std::get<Admission::Ticket>(std::move(answer));
  if (absl::Status refused = BeginQuota(*core, *caller, &ticket); !refused.ok()) {
    core->ReportRefused(refused, now);
    call->Finish({refused, {}}, nullptr);
    return call.get();
  }
  const ClientCall client = {*std::move(caller), now, DeadlineNs(*context, now), message.Length(),
                             TraceOf(*core, *context)};
  call->job_ = std::make_shared<EmbedJob>(core, std::move(ticket), client, call);
  call->job_->Start();
  return call.get();
}

absl::Status EmbedCall::ReadRequest(ClientEmbedRequest* request) {
  v1::EmbedRequest message;
  absl::Status parsed = ParseWire(message_, &message);
  message_.Clear();
  if (!parsed.ok()) return parsed;
  absl::Status status = EmbedRequestFromWire(&message, request);
  if (request->request_id.empty()) request->request_id = RequestIdOf(*context_);
  return status;
}

void EmbedCall::Finish(const ResponseEnd& end, const EmbedResult* result) {
  if (result != nullptr) {
    v1::EmbedResponse response = EmbedResultToWire(*result);
    response.set_request_id(end.request_id);
    *response_ = SerializeWire(response);
    context_->AddInitialMetadata(kRequestIdKey, end.request_id);
    unread_ = UnreadAnswer::Watch(core_, context_->c_call());
    return ServerUnaryReactor::Finish(grpc::Status::OK);
  }
  const GrpcReply reply = ToGrpcReply(end.status);
  AddTrailers(reply, context_);
  if (end.request_id.empty()) {
    EchoRequestId(reply.status, context_);  // it was refused before it was read
  } else {
    context_->AddTrailingMetadata(kRequestIdKey, end.request_id);
  }
  ServerUnaryReactor::Finish(reply.status);
}

}  // namespace dunlin::server
