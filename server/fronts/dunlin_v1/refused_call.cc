// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/refused_call.h"

#include "server/transport/grpc/overload_scheduling.h"

namespace dunlin::server {

RefusedCall* RefusedCall::Start(ServingCore* core, grpc::CallbackServerContext* context, const GrpcReply& reply) {
  AddTrailers(reply, context);
  auto* call = new RefusedCall(core);
  call->Finish(reply.status);
  return call;
}

// Runs on a different gRPC thread from Start.
void RefusedCall::OnDone() {
  UseBatchSchedulingWhenOverloaded(*core_->overload(), core_->now());
  delete this;
}

}  // namespace dunlin::server
