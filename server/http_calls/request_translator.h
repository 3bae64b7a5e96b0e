// SPDX-License-Identifier: Apache-2.0
// One HTTP call that generates text: the body of the request becomes a ClientRequest, OutputChunks become the body of
// the response. One class per route implements it. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// How a response that streams looks.
struct StreamForm {
  const char* content_type = "text/event-stream; charset=utf-8";
  std::string idle_text = ": keep-alive\n\n";  // HttpExchange::Begin's
};

class RequestTranslator {
 public:
  virtual ~RequestTranslator() = default;
  // Parses a request body. Errors: as ResponseWriter::ReadRequest.
  virtual absl::Status Read(std::string_view body, ClientRequest* request) = 0;
  // After Read, once: the request's prompts behind its first one. Each is a generation of its own; chunks count outputs
  // through all prompts: prompt * num_outputs + output.
  virtual std::vector<ClientPrompt> TakeFurtherPrompts() { return {}; }
  // After Read: the response is a stream, of server-sent events where stream_form says nothing else; else one JSON
  // document.
  virtual bool streams() const = 0;
  // After Read, of a response that streams.
  virtual StreamForm stream_form() const { return {}; }
  // Appends events; without streaming it accumulates and appends nothing.
  virtual void OnChunk(const OutputChunk& chunk, std::string* out) = 0;
  // After the last chunk. OK: appends the document, or the last events. After an error: an error event where the
  // response streams; nothing otherwise.
  virtual void OnEnd(const ResponseEnd& end, std::string* out) = 0;
  // A whole error document, for a response that has not begun.
  virtual std::string ErrorBody(const absl::Status& status) = 0;
};

}  // namespace dunlin::server
