// SPDX-License-Identifier: Apache-2.0
// A front end's side of one call, as the serving core sees it: where the request comes from and where the response
// goes. The core calls one function at a time, on the text pool, the thread that called Start, or an engine thread;
// none may block. A function may call back into its Generation or EmbedJob.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/encoder/encode_call.h"
#include "server/serving/client_request.h"
#include "server/serving/output_chunk.h"

namespace dunlin::server {

// How a call ends.
struct ResponseEnd {
  const absl::Status& status;     // OK: every output has sent its finish
  const std::string& request_id;  // "" when the call ended before its message was read
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // The first call, unless the call has ended before: parses the message. What could be read is left in *request after
  // an error too. Errors end the call: a malformed message, or a value that has no place in ClientRequest.
  virtual absl::Status ReadRequest(ClientRequest* request) = 0;

  // One chunk, valid during this call. At most one write is outstanding: Generation::OnWriteDone says that the writer
  // can take the next; tokens that come meanwhile are gathered into it.
  virtual void Write(const OutputChunk& chunk) = 0;

  // Exactly once. last: the last chunk, to go out with the status; null where there is none, and never with an error. A
  // write may be outstanding. Nothing but CutOff is called afterwards; when the response is with the client, or given
  // up, the writer calls Generation::OnClosed.
  virtual void Finish(const ResponseEnd& end, const OutputChunk* last) = 0;

  // The client leaves unread what was written: drop the call without waiting for it. From any thread, until OnClosed,
  // also before Finish: the writer then calls Generation::Cancel.
  virtual void CutOff() = 0;
};

// What an embedding call gives.
struct EmbedResult {
  const engine::EncodeCall& call;      // request and vectors
  const std::vector<bool>& truncated;  // by input
  Usage usage;
  Timings timings;
};

class EmbedWriter {
 public:
  virtual ~EmbedWriter() = default;
  // As ResponseWriter's.
  virtual absl::Status ReadRequest(ClientEmbedRequest* request) = 0;
  // Exactly once, the last call. result: null unless the status is OK; valid during this call.
  virtual void Finish(const ResponseEnd& end, const EmbedResult* result) = 0;
};

}  // namespace dunlin::server
