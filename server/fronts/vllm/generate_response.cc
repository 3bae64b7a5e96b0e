// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/generate_response.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dunlin::server {
namespace {

// The tokens that are most likely, with their ranks, but for the token itself.
void AddCandidates(const TokenLogprobs::Entry& entry, ::vllm::CandidateTokenInfo* wire) {
  for (size_t i = 0; i < entry.top.size(); ++i) {
    if (entry.top[i].token_id == entry.token_id) continue;
    ::vllm::CandidateTokenInfo::TokenInfo* token = wire->add_tokens();
    token->set_id(static_cast<uint32_t>(entry.top[i].token_id));
    token->set_logprob(entry.top[i].logprob);
    token->set_rank(static_cast<uint32_t>(i) + 1);
  }
}

// Info: PromptInfo or SequenceOutput. Each token has an entry in every list, also where no candidates were asked for.
template <typename Info>
void AddLogprobs(const TokenLogprobs& logprobs, Info* wire) {
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    wire->add_logprobs(entry.logprob);
    wire->add_ranks(static_cast<uint32_t>(entry.rank));
    AddCandidates(entry, wire->add_candidate_tokens());
  }
}

}  // namespace

bool VllmResponses::Add(const OutputChunk& chunk, ::vllm::GenerateResponse* wire) const {
  if (chunk.num_prompt_tokens > 0) AddPrompt(chunk, wire->mutable_prompt_info());
  if (!chunk.prompt_logprobs.empty()) AddLogprobs(chunk.prompt_logprobs, wire->mutable_prompt_info());
  const bool has_output = !chunk.token_ids.empty() || !chunk.text.empty() || chunk.finish.has_value();
  if (has_output) AddOutput(chunk, wire->mutable_outputs());
  return has_output || (wire->has_prompt_info() && !fields_.prompt_logprobs);
}

void VllmResponses::AddPrompt(const OutputChunk& chunk, ::vllm::PromptInfo* wire) const {
  wire->set_num_prompt_tokens(static_cast<uint32_t>(chunk.num_prompt_tokens));
  wire->mutable_token_ids()->Add(chunk.prompt_token_ids.begin(), chunk.prompt_token_ids.end());
  if (!fields_.prompt_logprobs) return;
  wire->add_logprobs(0);  // the first token follows nothing
  wire->add_ranks(0);
  wire->add_candidate_tokens();
}

void VllmResponses::AddOutput(const OutputChunk& chunk, ::vllm::SequenceOutput* wire) const {
  wire->set_index(static_cast<uint32_t>(chunk.index));
  if (fields_.output_text) wire->mutable_text()->append(chunk.text);
  wire->set_num_tokens(wire->num_tokens() + static_cast<uint32_t>(chunk.token_ids.size()));
  if (fields_.output_token_ids) wire->mutable_token_ids()->Add(chunk.token_ids.begin(), chunk.token_ids.end());
  AddLogprobs(chunk.logprobs, wire);
  if (chunk.finish.has_value()) AddFinish(*chunk.finish, wire->mutable_finish_info());
}

void VllmResponses::AddFinish(const OutputFinish& finish, ::vllm::FinishInfo* wire) const {
  wire->set_num_output_tokens(static_cast<uint32_t>(finish.usage.completion_tokens));
  wire->set_num_cached_tokens(static_cast<uint32_t>(finish.usage.cached_tokens));
  // kConstraint cuts an output off, too; which bound did has no field.
  const bool whole = finish.reason == engine::FinishReason::kStop;
  wire->set_finish_reason(whole ? ::vllm::FinishInfo::STOP : ::vllm::FinishInfo::LENGTH);
  if (finish.stop_string.has_value()) wire->set_stop_string(*finish.stop_string);
  if (!finish.stop_token_id.has_value()) return;
  const std::vector<engine::TokenId>& named = fields_.stop_token_ids;
  const auto id = static_cast<uint32_t>(*finish.stop_token_id);
  if (std::find(named.begin(), named.end(), *finish.stop_token_id) != named.end()) {
    wire->set_stop_token_id(id);
  } else {
    wire->set_eos_token_id(id);
  }
}

}  // namespace dunlin::server
