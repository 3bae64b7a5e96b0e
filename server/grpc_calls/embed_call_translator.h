// SPDX-License-Identifier: Apache-2.0
// As call_translator.h, for embeddings. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>

#include "absl/status/status.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

class EmbedCallTranslator {
 public:
  virtual ~EmbedCallTranslator() = default;
  // Parses the message. Errors: as EmbedWriter::ReadRequest.
  virtual absl::Status Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) = 0;
  // The response of a call that ended OK.
  virtual grpc::ByteBuffer Render(const std::string& request_id, const EmbedResult& result) = 0;
};

}  // namespace dunlin::server
