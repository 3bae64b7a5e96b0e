// SPDX-License-Identifier: Apache-2.0
// What the serving core answers -> ModelInferResponses, whatever transport carries them.
// Owner: a translator of the call. Thread rule: one function at a time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kserve/grpc_service.pb.h"
#include "server/fronts/kserve/infer_outputs.h"
#include "server/fronts/kserve/infer_request.h"
#include "server/serving/output/response_writer.h"

namespace dunlin::server::kserve {

// The responses of a generation: one per chunk if the request asks for that, else one at the end.
class InferResponses {
 public:
  // Takes a response, which it may change; last: no other follows.
  using Sink = absl::FunctionRef<void(inference::ModelInferResponse* response, bool last)>;

  // Filled as the request is read.
  ResponseForm* form() { return &form_; }
  const ResponseForm& form() const { return form_; }

  void OnChunk(const OutputChunk& chunk, Sink sink);
  void OnEnd(Sink sink);

 private:
  void Make(std::span<const OutputPart> parts, bool last, Sink sink);

  ResponseForm form_;
  std::vector<OutputPart> parts_;  // by index
  size_t num_finished_ = 0;
  std::optional<engine::ExecutionProfile> profile_;  // until a response has told it
  std::string adapter_;                              // with profile_
};

// The response of an embedding.
void FillEmbedding(const ResponseForm& form, const EmbedResult& result, inference::ModelInferResponse* response);

}  // namespace dunlin::server::kserve
