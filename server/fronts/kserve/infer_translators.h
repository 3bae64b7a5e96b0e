// SPDX-License-Identifier: Apache-2.0
// Requests of ModelInfer and ModelStreamInfer between their messages and the serving core.
// Owner: the call. Thread rule: one function at a time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/fronts/kserve/infer_outputs.h"
#include "server/fronts/kserve/infer_request.h"
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
  const std::string& id() const { return form_.id; }

 private:
  void AddResponse(std::span<const OutputPart> parts, bool last, WireMessages* out);

  const Rpc rpc_;
  ResponseForm form_;
  std::vector<OutputPart> parts_;  // by index
  size_t num_finished_ = 0;
  std::optional<engine::ExecutionProfile> profile_;  // until a response has told it
};

class EmbedTranslator final : public EmbedCallTranslator {
 public:
  absl::Status Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) override;
  grpc::ByteBuffer Render(const std::string& request_id, const EmbedResult& result) override;
  // The same as the one response of a request of a stream.
  inference::ModelStreamInferResponse StreamResponse(const EmbedResult& result) const;
  const std::string& id() const { return form_.id; }

 private:
  void Fill(const EmbedResult& result, inference::ModelInferResponse* response) const;

  ResponseForm form_;
};

// A request of a stream that failed.
inference::ModelStreamInferResponse StreamError(const std::string& id, const std::string& message);

}  // namespace dunlin::server::kserve
