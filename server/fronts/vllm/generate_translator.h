// SPDX-License-Identifier: Apache-2.0
// One call of vllm.Inference: GenerateStream, or Generate, which gathers the chunks in one message. A request that is
// aborted ends as vLLM's does: its outputs have ABORTED as their reason, and the call is OK.
// Owner: the call. Thread rule: one function at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "server/fronts/vllm/generate_response.h"
#include "server/grpc_calls/call_translator.h"
#include "server/serving/core/serving_core.h"
#include "vllm/inference.pb.h"

namespace dunlin::server {

class VllmGenerateTranslator final : public CallTranslator {
 public:
  // core outlives this object.
  VllmGenerateTranslator(const ServingCore* core, bool streams) : core_(core), streams_(streams) {}

  absl::Status Read(const grpc::ByteBuffer& message, ClientRequest* request) override;
  void OnChunk(const OutputChunk& chunk, WireMessages* out) override;
  void OnEnd(WireMessages* out) override;
  bool OnError(const absl::Status& error, WireMessages* out) override;

 private:
  struct Output {
    int32_t num_tokens = 0;  // so far
    bool finished = false;
  };

  const ServingCore* const core_;
  const bool streams_;
  VllmResponses responses_;
  std::vector<Output> outputs_;
  ::vllm::GenerateResponse response_;  // what is not written yet; its memory is reused
};

}  // namespace dunlin::server
