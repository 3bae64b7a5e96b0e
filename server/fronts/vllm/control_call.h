// SPDX-License-Identifier: Apache-2.0
// A call of vllm.Control: what its methods share.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "server/access/principal.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

class VllmControlService;

struct VllmControlCall {
  VllmControlService* service;
  grpc::CallbackServerContext* context;
  const Principal& caller;
};

// Ends a call. reactor: the context's own, which it gives once.
inline void FinishCall(grpc::ServerUnaryReactor* reactor, grpc::CallbackServerContext* context,
                       const absl::Status& status) {
  const grpc::Status end = ToGrpcStatus(status);
  EchoRequestId(end, context);
  reactor->Finish(end);
}

inline grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  FinishCall(reactor, context, status);
  return reactor;
}

}  // namespace dunlin::server
