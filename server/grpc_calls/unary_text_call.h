// SPDX-License-Identifier: Apache-2.0
// A unary gRPC call whose work runs on the text pool: admission on gRPC's thread; parse, work and serialise on the
// pool. Ownership: gRPC holds it until OnDone, the pool while it is scheduled; the admission ticket goes with it.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "server/access/admission.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/refused_call.h"
#include "server/grpc_calls/unread_answer.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/core/text_pool.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

template <class Request, class Response>
class UnaryTextCall final : public grpc::ServerUnaryReactor, public TextTask {
 public:
  // Runs on the text pool; must be a pure function of its arguments and constant state.
  using Work = absl::Status (*)(const ServingCore& core, const Principal& caller, const Request& request,
                                Response* response);

  // admission and *response outlive the call. method: as the endpoint table names it.
  static grpc::ServerUnaryReactor* Start(const CallAdmission& admission, const char* method,
                                         grpc::CallbackServerContext* context, const grpc::ByteBuffer& message,
                                         grpc::ByteBuffer* response, Work work) {
    auto answer = admission.Admit(method, *context, message.Length(), CallAdmission::Kind::kText);
    if (const auto* refusal = std::get_if<CallRefusal>(&answer)) {
      return RefusedUnary::Start(admission.core(), context, refusal->reply());
    }
    auto admitted = std::get<AdmittedCall>(std::move(answer));
    std::shared_ptr<UnaryTextCall> call(new UnaryTextCall(admission.core(), context, response, work));
    call->self_ = call;
    call->caller_ = std::move(admitted.client.principal);
    call->ticket_ = std::move(admitted.ticket);
    call->message_ = message;
    admission.core()->text_pool()->Schedule(call.get());
    return call.get();
  }

 private:
  UnaryTextCall(ServingCore* core, grpc::CallbackServerContext* context, grpc::ByteBuffer* response, Work work)
      : core_(core), context_(context), response_(response), work_(work) {}

  void OnDone() override {
    if (unread_ != nullptr) unread_->OnDone();
    const std::shared_ptr<UnaryTextCall> last = std::move(self_);
  }

  void Run() override {
    if (context_->IsCancelled()) return End(absl::CancelledError());
    Request request;
    absl::Status status = ParseWire(message_, &request);
    message_.Clear();
    Response response;
    if (status.ok()) status = work_(*core_, caller_, request, &response);
    ticket_.ReleaseBytes();
    if (status.ok()) *response_ = SerializeWire(response);
    End(status);
  }

  void End(const absl::Status& status) {
    const GrpcReply reply = ToGrpcReply(status);
    AddTrailers(reply, context_);
    EchoRequestId(reply.status, context_);
    if (status.ok()) unread_ = UnreadAnswer::Watch(core_, context_->c_call());  // a status alone is always sent
    Finish(reply.status);
  }

  ServingCore* const core_;
  grpc::CallbackServerContext* const context_;  // until Finish
  grpc::ByteBuffer* const response_;            // gRPC's, until OnDone
  const Work work_;
  Principal caller_;
  grpc::ByteBuffer message_;
  std::shared_ptr<UnreadAnswer> unread_;  // from Finish on
  std::shared_ptr<UnaryTextCall> self_;   // gRPC's share
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
