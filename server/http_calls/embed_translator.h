// SPDX-License-Identifier: Apache-2.0
// As request_translator.h, for embeddings. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

class EmbedTranslator {
 public:
  virtual ~EmbedTranslator() = default;

  // Parses a request body. Errors: as EmbedWriter::ReadRequest.
  virtual absl::Status Read(std::string_view body, ClientEmbedRequest* request) = 0;
  // The document of a call that ended OK.
  virtual std::string Document(const EmbedResult& result) const = 0;
  // The document of a call that has loaded its model and no more (ClientEmbedRequest::loads_only).
  virtual std::string LoadedDocument() const { return "{}"; }
  // A whole error document.
  virtual std::string ErrorBody(const absl::Status& status) const = 0;
};

}  // namespace dunlin::server
