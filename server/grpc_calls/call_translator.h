// SPDX-License-Identifier: Apache-2.0
// One gRPC call that generates text: its message becomes a ClientRequest, OutputChunks become messages of the response.
// One class per method implements it. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "server/grpc_calls/wire_messages.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

class CallTranslator {
 public:
  virtual ~CallTranslator() = default;
  // Parses the message. Errors: as ResponseWriter::ReadRequest. A request without an id gets the one of the call's
  // metadata.
  virtual absl::Status Read(const grpc::ByteBuffer& message, ClientRequest* request) = 0;
  // Adds the messages that the chunk makes: none, one or several.
  virtual void OnChunk(const OutputChunk& chunk, WireMessages* out) = 0;
  // After the last chunk of a call that ended OK. Of a unary call, the response has exactly one message once this
  // returns.
  virtual void OnEnd(WireMessages* /*out*/) {}
  // In place of OnEnd, of a call that failed once its message was read. False: the error is the call's status alone.
  // True: the call ends OK with the messages that this adds, one of a unary call.
  virtual bool OnError(const absl::Status& /*error*/, WireMessages* /*out*/) { return false; }
};

}  // namespace dunlin::server
