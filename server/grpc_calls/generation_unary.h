// SPDX-License-Identifier: Apache-2.0
// A generation whose response is one message: its translator accumulates the chunks and adds the message at the end.
// Thread and ownership rules: as GenerationCall.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "server/grpc_calls/generation_call.h"
#include "server/grpc_calls/wire_messages.h"

namespace dunlin::server {

class GenerationUnary final : public grpc::ServerUnaryReactor, public GenerationCall {
 public:
  // Takes the call over, or refuses it. method and *response outlive it. Never null.
  static grpc::ServerUnaryReactor* Start(const GenerationMethod& method, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer& message, grpc::ByteBuffer* response);

 private:
  GenerationUnary(const GenerationMethod& method, grpc::CallbackServerContext* context, const grpc::ByteBuffer& message,
                  grpc::ByteBuffer* response)
      : GenerationCall(method, context, message), response_(response) {}

  void OnCancel() override { generation()->Cancel(); }
  void OnDone() override { Close(); }

  void Write(const OutputChunk& chunk) override;
  void Finish(const ResponseEnd& end, const OutputChunk* last) override;

  grpc::ByteBuffer* const response_;  // gRPC's, until OnDone
  WireMessages messages_;
};

}  // namespace dunlin::server
