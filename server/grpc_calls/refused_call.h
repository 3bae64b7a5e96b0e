// SPDX-License-Identifier: Apache-2.0
// A call that is refused before its message is read: it parses no message, creates no generation and schedules nothing.
// It owns itself until OnDone. It only sends a status, which flow control does not block, so it needs no watch for
// stalled readers. Runs on gRPC's threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/serving/core/serving_core.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/overload_scheduling.h"

namespace dunlin::server {

// Reactor: of the method.
template <class Reactor>
class RefusedCall final : public Reactor {
 public:
  // Ends the call with the reply. Never null; gRPC owns the result.
  static Reactor* Start(ServingCore* core, grpc::CallbackServerContext* context, const GrpcReply& reply) {
    AddTrailers(reply, context);
    EchoRequestId(reply.status, context);
    auto* call = new RefusedCall(core);
    call->Finish(reply.status);
    return call;
  }

 private:
  explicit RefusedCall(ServingCore* core) : core_(core) {}

  // Runs on a different gRPC thread from Start.
  void OnDone() override {
    UseBatchSchedulingWhenOverloaded(*core_->overload(), core_->now());
    delete this;
  }

  ServingCore* const core_;
};

using RefusedStream = RefusedCall<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
using RefusedUnary = RefusedCall<grpc::ServerUnaryReactor>;

}  // namespace dunlin::server
