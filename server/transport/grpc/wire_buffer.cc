// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/wire_buffer.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {

absl::Status ParseWire(const grpc::ByteBuffer& wire, google::protobuf::Message* message) {
  grpc::ByteBuffer shared = wire;  // the reader needs a mutable buffer; slices are shared, not copied
  grpc::ProtoBufferReader reader(&shared);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return MakeError(Reason::kMalformedMessage,
                   absl::StrCat("the message is not a ", message->GetDescriptor()->full_name(),
                                ": it is malformed, or one of its strings is not UTF-8"));
}

grpc::ByteBuffer SerializeWire(const google::protobuf::Message& message) {
  const size_t bytes = message.ByteSizeLong();
  grpc::Slice slice(bytes);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return {&slice, 1};
}

}  // namespace dunlin::server
