// SPDX-License-Identifier: Apache-2.0
// Converts protobuf messages from and to gRPC's byte buffers. Our services take raw buffers because gRPC 1.51's
// callback API answers a message that it cannot parse (invalid UTF-8 included) with a bare UNIMPLEMENTED, and because
// parsing belongs on the text pool. Any thread.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"

namespace dunlin::server {

// Errors: INVALID_ARGUMENT MALFORMED_MESSAGE. gRPC bounds the message's size (limits.max_message_bytes).
absl::Status ParseWire(const grpc::ByteBuffer& wire, google::protobuf::Message* message);
grpc::ByteBuffer SerializeWire(const google::protobuf::Message& message);

}  // namespace dunlin::server
