// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/embed_call.h"

#include <utility>
#include <variant>

#include "server/grpc_calls/refused_call.h"
#include "server/serving/core/parse_share.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

grpc::ServerUnaryReactor* EmbedCall::Start(const EmbedMethod& method, grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer& message, grpc::ByteBuffer* response) {
  const CallAdmission& admission = *method.admission;
  auto answer = admission.Admit(method.name, *context, message.Length(), CallAdmission::Kind::kInference);
  if (const auto* refusal = std::get_if<CallRefusal>(&answer)) {
    return RefusedUnary::Start(admission.core(), context, refusal->reply());
  }
  auto admitted = std::get<AdmittedCall>(std::move(answer));
  std::shared_ptr<EmbedCall> call(new EmbedCall(method, context, message, response));
  call->self_ = call;
  call->job_ = std::make_shared<EmbedJob>(admission.core(), std::move(admitted.ticket), admitted.client, call);
  call->job_->Start();
  return call.get();
}

absl::Status EmbedCall::ReadRequest(ClientEmbedRequest* request) {
  ParseShare share;
  absl::Status status = share.TakeForMessage(core_, message_.Length());
  if (status.ok()) status = translator_->Read(message_, request);
  message_.Clear();
  if (request->request_id.empty()) request->request_id = RequestIdOf(*context_);
  return status;
}

void EmbedCall::Finish(const ResponseEnd& end, const EmbedResult* result) {
  if (result != nullptr) {
    *response_ = translator_->Render(end.request_id, *result);
    context_->AddInitialMetadata(kRequestIdKey, end.request_id);
    unread_ = UnreadAnswer::Watch(core_, context_->c_call());
    return ServerUnaryReactor::Finish(grpc::Status::OK);
  }
  const GrpcReply reply = ToGrpcReply(end.status);
  AddTrailers(reply, context_);
  if (end.request_id.empty()) {
    EchoRequestId(reply.status, context_);  // it ended before it was read
  } else {
    context_->AddTrailingMetadata(kRequestIdKey, end.request_id);
  }
  ServerUnaryReactor::Finish(reply.status);
}

}  // namespace dunlin::server
