// A Generate call that is refused at the door: no message is parsed, no stream is made, nothing is scheduled. It owns
// itself until OnDone. Its one operation is a status without a message, which flow control does not hold up: so there
// is no watch for readers that stall. gRPC's threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/admission.h"
#include "server/grpc/edge.h"

namespace dunlin::server {

class RefusedCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Tells the observer and ends the call. Never null; gRPC's from now on.
  static RefusedCall* Start(const Edge& edge, grpc::CallbackServerContext* context, DoorRefusal refusal);

 private:
  explicit RefusedCall(const Edge& edge) : edge_(edge) {}
  void OnDone() override;

  const Edge& edge_;
};

}  // namespace dunlin::server
