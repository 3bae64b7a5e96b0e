// SPDX-License-Identifier: Apache-2.0
// A Generate call that is refused before its message is read: no message is parsed, no generation made, nothing
// scheduled. It owns itself until OnDone. Its one operation is a status without a message, which flow control does not
// hold up, so no watch for stalled readers is needed. gRPC's threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/serving/serving_core.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

class RefusedCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Ends the call with the reply. Never null; gRPC's from now on.
  static RefusedCall* Start(ServingCore* core, grpc::CallbackServerContext* context, const GrpcReply& reply);

 private:
  explicit RefusedCall(ServingCore* core) : core_(core) {}
  void OnDone() override;

  ServingCore* const core_;
};

}  // namespace dunlin::server
