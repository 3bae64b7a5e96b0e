// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/generation_unary.h"

#include <utility>
#include <variant>

#include "engine/base/check.h"
#include "server/grpc_calls/refused_call.h"

namespace dunlin::server {

grpc::ServerUnaryReactor* GenerationUnary::Start(const GenerationMethod& method, grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer& message, grpc::ByteBuffer* response) {
  const CallAdmission& admission = *method.admission;
  auto answer = admission.Admit(method.name, *context, message.Length(), CallAdmission::Kind::kInference);
  if (const auto* refusal = std::get_if<CallRefusal>(&answer)) {
    return RefusedUnary::Start(admission.core(), context, refusal->reply());
  }
  std::shared_ptr<GenerationUnary> call(new GenerationUnary(method, context, message, response));
  call->Begin(std::get<AdmittedCall>(std::move(answer)), call);
  return call.get();
}

void GenerationUnary::Write(const OutputChunk& chunk) {
  translator()->OnChunk(chunk, &messages_);
  generation()->OnWriteDone(true);
}

void GenerationUnary::Finish(const ResponseEnd& end, const OutputChunk* last) {
  if (end.status.ok()) {
    if (last != nullptr) translator()->OnChunk(*last, &messages_);
    translator()->OnEnd(&messages_);
  } else if (!translator()->OnError(end.status, &messages_)) {
    return ServerUnaryReactor::Finish(FailureOf(end, false));
  }
  DUNLIN_CHECK(messages_.size() == 1, "a unary call has one response");
  messages_.TakeFirst(response_);
  AnnounceRequestId(end.request_id);
  ServerUnaryReactor::Finish(grpc::Status::OK);
}

}  // namespace dunlin::server
