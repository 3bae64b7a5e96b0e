// A unary call whose work runs on the text pool: admission on gRPC's thread, then parse, work, serialise on the pool.
// Ownership: gRPC holds it until OnDone, the pool while it is scheduled; the admission ticket goes with it.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/admission.h"
#include "server/grpc/edge.h"
#include "server/grpc/grpc_status.h"
#include "server/grpc/wire_buffer.h"
#include "server/text_pool.h"

namespace dunlin::server {

template <class Request, class Response>
class UnaryTextCall final : public grpc::ServerUnaryReactor, public TextTask {
 public:
  // On the text pool; must be a pure function of its arguments and what is const.
  using Work = absl::Status (*)(const Edge& edge, const Request& request, Response* response);

  // edge and *response outlive the call.
  static grpc::ServerUnaryReactor* Start(const Edge& edge, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer& request, grpc::ByteBuffer* response, Work work) {
    std::shared_ptr<UnaryTextCall> call(new UnaryTextCall(edge, context, response, work));
    call->self_ = call;
    absl::StatusOr<Admission::Ticket> ticket = edge.admission->Admit(request.Length());
    if (!ticket.ok()) {
      call->End(ticket.status());
      return call.get();
    }
    call->ticket_ = *std::move(ticket);
    call->request_ = request;
    edge.text_pool->Schedule(call.get());
    return call.get();
  }

 private:
  UnaryTextCall(const Edge& edge, grpc::CallbackServerContext* context, grpc::ByteBuffer* response, Work work)
      : edge_(edge), context_(context), response_(response), work_(work) {}

  void OnDone() override { const std::shared_ptr<UnaryTextCall> last = std::move(self_); }

  void Run() override {
    if (context_->IsCancelled()) return End(absl::CancelledError());
    Request request;
    absl::Status status = ParseWire(request_, &request);
    request_.Clear();
    Response response;
    if (status.ok()) status = work_(edge_, request, &response);
    ticket_.ReleaseBytes();
    if (status.ok()) *response_ = SerializeWire(response);
    End(status);
  }

  void End(const absl::Status& status) {
    AddStatusTrailers(status, context_);
    Finish(ToGrpcStatus(status));
  }

  const Edge& edge_;
  grpc::CallbackServerContext* const context_;  // until Finish
  grpc::ByteBuffer* const response_;            // gRPC's, until OnDone
  const Work work_;
  grpc::ByteBuffer request_;
  std::shared_ptr<UnaryTextCall> self_;  // gRPC's share
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
