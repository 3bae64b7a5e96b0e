// SPDX-License-Identifier: Apache-2.0
// Requests of ModelInfer and ModelStreamInfer between their messages and the serving core.
// Owner: the call. Thread rule: one function at a time.
#pragma once

#include <string>

#include "server/fronts/kserve/infer_request.h"
#include "server/fronts/kserve/infer_responses.h"
#include "server/grpc_calls/call_translator.h"
#include "server/grpc_calls/embed_call_translator.h"

namespace dunlin::server::kserve {

// A generation. Of a stream, a response per chunk if the request asks for that, else one at the end; each with the
// parameter triton_final_response.
class GenerateTranslator final : public CallTranslator {
 public:
  explicit GenerateTranslator(Rpc rpc) : rpc_(rpc) {}
  absl::Status Read(const grpc::ByteBuffer& message, ClientRequest* request) override;
  void OnChunk(const OutputChunk& chunk, WireMessages* out) override;
  void OnEnd(WireMessages* out) override;
  // The id of the request, once it is read.
  const std::string& id() const { return responses_.form().id; }

 private:
  const Rpc rpc_;
  InferResponses responses_;
};

class EmbedTranslator final : public EmbedCallTranslator {
 public:
  absl::Status Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) override;
  grpc::ByteBuffer Render(const std::string& request_id, const EmbedResult& result) override;
  // The same as the one response of a request of a stream.
  inference::ModelStreamInferResponse StreamResponse(const EmbedResult& result) const;
  const std::string& id() const { return form_.id; }

 private:
  ResponseForm form_;
};

// A request of a stream that failed.
inference::ModelStreamInferResponse StreamError(const std::string& id, const std::string& message);

}  // namespace dunlin::server::kserve
