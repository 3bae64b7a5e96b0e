// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/generate_translator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

const char* ReasonOf(const OutputFinish& finish) {
  return finish.reason == engine::FinishReason::kStop ? "stop" : "length";  // kConstraint cuts an output off, too
}

void AppendIds(const std::vector<engine::TokenId>& ids, google::protobuf::RepeatedField<uint32_t>* wire) {
  for (const engine::TokenId id : ids) wire->Add(static_cast<uint32_t>(id));
}

}  // namespace

absl::Status EngineGenerateTranslator::Read(const grpc::ByteBuffer& message, ClientRequest* request) {
  vllm_engine::GenerateRequest wire;
  if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
  streams_ = wire.stream();
  absl::Status status = GenerateRequestFromWire(&wire, request);
  request->model = model_->ForGeneration(request->principal);
  stop_token_ids_ = request->stopping.stop_token_ids;
  const auto* ids = std::get_if<std::vector<engine::TokenId>>(&request->prompt);
  if (ids != nullptr && !ids->empty() && !request->truncate_prompt_tokens.has_value()) {
    num_prompt_tokens_ = static_cast<uint32_t>(ids->size());
    first_token_ = ids->front();
  }
  request->stopping.clamp_max_tokens = true;  // routers of this contract leave it to the worker
  return status;
}

void EngineGenerateTranslator::OnChunk(const OutputChunk& chunk, WireMessages* out) {
  if (!chunk.prompt_logprobs.empty()) {
    if (!prompt_logprobs_.has_value()) prompt_logprobs_.emplace();
    AppendPromptLogprobs(chunk.prompt_logprobs, first_token_, &*prompt_logprobs_);
  }
  if (streams_) {
    if (!chunk.token_ids.empty()) AddChunk(chunk, out);
  } else {
    vllm_engine::GenerateComplete& output = outputs_[chunk.index];
    AppendIds(chunk.token_ids, output.mutable_output_ids());
    if (!chunk.logprobs.empty()) AppendLogprobs(chunk.logprobs, output.mutable_output_logprobs());
  }
  if (chunk.finish.has_value()) AddComplete(chunk, out);
}

void EngineGenerateTranslator::AddChunk(const OutputChunk& chunk, WireMessages* out) {
  vllm_engine::GenerateStreamChunk* wire = response_.mutable_chunk();
  wire->Clear();
  AppendIds(chunk.token_ids, wire->mutable_token_ids());
  wire->set_prompt_tokens(num_prompt_tokens_);
  wire->set_completion_tokens(static_cast<uint32_t>(chunk.token_ids.size()));
  wire->set_index(static_cast<uint32_t>(chunk.index));
  if (!chunk.logprobs.empty()) AppendLogprobs(chunk.logprobs, wire->mutable_output_logprobs());
  if (chunk.index == 0 && prompt_logprobs_.has_value()) {
    *wire->mutable_input_logprobs() = *std::exchange(prompt_logprobs_, std::nullopt);
  }
  out->Add(response_);
}

void EngineGenerateTranslator::AddComplete(const OutputChunk& chunk, WireMessages* out) {
  const OutputFinish& finish = *chunk.finish;
  vllm_engine::GenerateComplete* wire = response_.mutable_complete();
  wire->Clear();
  if (!streams_) {
    wire->Swap(&outputs_[chunk.index]);
    outputs_.erase(chunk.index);
  }
  wire->set_index(static_cast<uint32_t>(chunk.index));
  wire->set_finish_reason(ReasonOf(finish));
  wire->set_prompt_tokens(static_cast<uint32_t>(finish.usage.prompt_tokens));
  wire->set_completion_tokens(static_cast<uint32_t>(finish.usage.completion_tokens));
  wire->set_cached_tokens(static_cast<uint32_t>(finish.usage.cached_tokens));
  if (finish.stop_string.has_value()) {
    wire->set_matched_stop_str(*finish.stop_string);
  } else if (finish.stop_token_id.has_value() && std::find(stop_token_ids_.begin(), stop_token_ids_.end(),
                                                           *finish.stop_token_id) != stop_token_ids_.end()) {
    wire->set_matched_token_id(static_cast<uint32_t>(*finish.stop_token_id));
  }
  if (chunk.index == 0 && prompt_logprobs_.has_value()) {
    *wire->mutable_input_logprobs() = *std::exchange(prompt_logprobs_, std::nullopt);
  }
  out->Add(response_);
}

}  // namespace dunlin::server
