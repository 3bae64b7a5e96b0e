// SPDX-License-Identifier: Apache-2.0
// A Generate call that is refused before its message is read: it parses no message, creates no generation and schedules
// nothing. It owns itself until OnDone. It only sends a status, which flow control does not block, so it needs no
// watch for stalled readers. Runs on gRPC's threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/serving/serving_core.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

class RefusedCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Ends the call with the reply. Never null; gRPC owns the result.
  static RefusedCall* Start(ServingCore* core, grpc::CallbackServerContext* context, const GrpcReply& reply);

 private:
  explicit RefusedCall(ServingCore* core) : core_(core) {}
  void OnDone() override;

  ServingCore* const core_;
};

}  // namespace dunlin::server
