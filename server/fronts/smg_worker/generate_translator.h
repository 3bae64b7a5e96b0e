// SPDX-License-Identifier: Apache-2.0
// Generate: deltas as chunks and a Complete for each output where the caller wants a stream; one Complete for each
// output, with all of its tokens, where not. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/request/types.h"
#include "server/fronts/smg_worker/engine_model.h"
#include "server/fronts/smg_worker/generate_messages.h"
#include "server/grpc_calls/call_translator.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

class EngineGenerateTranslator final : public CallTranslator {
 public:
  // model outlives the translator.
  explicit EngineGenerateTranslator(const EngineModel* model) : model_(model) {}

  absl::Status Read(const grpc::ByteBuffer& message, ClientRequest* request) override;
  void OnChunk(const OutputChunk& chunk, WireMessages* out) override;

 private:
  void AddChunk(const OutputChunk& chunk, WireMessages* out);
  void AddComplete(const OutputChunk& chunk, WireMessages* out);

  const EngineModel* const model_;
  bool streams_ = false;
  uint32_t num_prompt_tokens_ = 0;   // 0: not known before the finish
  engine::TokenId first_token_ = 0;  // of the prompt
  std::vector<engine::TokenId> stop_token_ids_;
  std::optional<vllm_engine::InputLogProbs> prompt_logprobs_;  // go into output 0's next message

  vllm_engine::GenerateResponse response_;  // memory is reused
  // Without a stream: the outputs that have not finished.
  std::map<int32_t, vllm_engine::GenerateComplete> outputs_;
};

}  // namespace dunlin::server
