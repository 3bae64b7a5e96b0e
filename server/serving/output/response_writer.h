// SPDX-License-Identifier: Apache-2.0
// The interface of one call between the serving core and a front end: the source of the request and the destination of
// the response. The core calls one function at a time, on the text pool, the thread that called Start, or an engine
// thread; none may block. A function may call back into its Generation or EmbedJob.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/encoder/encode_call.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// How a call ends.
struct ResponseEnd {
  const absl::Status& status;     // OK: every output has sent its finish
  const std::string& request_id;  // "" if the call ended before its message was read
  bool model_freed = false;       // of a request that frees its model: FreedModel::leaves
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // Parses the message. Called first, unless the call has already ended. *request holds what could be read even after
  // an error. Errors end the call: a malformed message, or a value that ClientRequest cannot represent.
  virtual absl::Status ReadRequest(ClientRequest* request) = 0;

  // Writes one chunk, which is valid during this call. At most one write is outstanding: Generation::OnWriteDone says
  // that the writer can take the next; tokens that arrive in the meantime are batched into it.
  virtual void Write(const OutputChunk& chunk) = 0;

  // Called exactly once. last: the last chunk, to send with the status; null if there is none, and always with an
  // error. A write may be outstanding. Nothing but CutOff is called afterwards; when the response has been delivered or
  // abandoned, the writer calls Generation::OnClosed.
  virtual void Finish(const ResponseEnd& end, const OutputChunk* last) = 0;

  // The client does not read what was written: drops the call without waiting for it. From any thread, until OnClosed,
  // also before Finish: the writer then calls Generation::Cancel.
  virtual void CutOff() = 0;
};

// How a rerank call's logits become its results.
struct RerankScores {
  bool sigmoid = true;
  std::optional<int32_t> top_n;
};

// The result of an embedding or rerank call.
struct EmbedResult {
  const engine::EncodeCall& call;      // request and vectors
  const std::vector<bool>& truncated;  // by input
  // Of a rerank call: what was asked for, and whether the model's scores are sigmoids of its logits; else null.
  const RerankScores* rerank = nullptr;
  Usage usage;
  Timings timings;
  std::string_view request_id = {};
  int32_t num_ranks = 1;  // of the model
};

class EmbedWriter {
 public:
  virtual ~EmbedWriter() = default;
  // As ResponseWriter's.
  virtual absl::Status ReadRequest(ClientEmbedRequest* request) = 0;
  // Called exactly once, as the last function. result: null unless the status is OK, and of a request that loads its
  // model alone; valid during this call.
  virtual void Finish(const ResponseEnd& end, const EmbedResult* result) = 0;
};

}  // namespace dunlin::server
