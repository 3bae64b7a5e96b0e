// SPDX-License-Identifier: Apache-2.0
// The requests of a stream: a generation or an embedding, by what the model is. Thread rule: as StreamRequest and the
// writer of each. Ownership: shared by its stream (until OnClosed) and its generation or job.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "server/fronts/kserve/infer_request.h"
#include "server/fronts/kserve/stream_call.h"
#include "server/grpc_calls/call_admission.h"

namespace dunlin::server::kserve {

// Whether that is a model of the server that embeds.
bool Embeds(const ServingCore& core, const Principal& caller, const std::string& model);

// core outlives the result. peeked: of the message.
std::shared_ptr<StreamRequest> MakeStreamRequest(ServingCore* core, AdmittedCall admitted,
                                                 const grpc::ByteBuffer& message, PeekedRequest peeked,
                                                 std::shared_ptr<StreamCall> stream);

}  // namespace dunlin::server::kserve
