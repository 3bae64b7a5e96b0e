// SPDX-License-Identifier: Apache-2.0
#include "server/serving/output/output_chunk.h"

namespace dunlin::server {

void GatherToolCalls(const std::vector<ToolCallDelta>& deltas, std::vector<ToolCallDelta>* calls) {
  for (const ToolCallDelta& delta : deltas) {
    const auto index = static_cast<size_t>(delta.tool_index);
    if (index >= calls->size()) calls->resize(index + 1);
    ToolCallDelta& call = (*calls)[index];
    call.tool_index = delta.tool_index;
    call.id.append(delta.id);
    call.name.append(delta.name);
    call.arguments.append(delta.arguments);
  }
}

void TokenLogprobs::Add(const TokenRing::Token& token, std::span<const engine::TopLogprob> top,
                        const text::Tokenizer* tokenizer) {
  tokens_.push_back({Score(token.id, token.logprob, tokenizer), token.rank, top_.size(), top.size()});
  for (const engine::TopLogprob& other : top) top_.push_back(Score(other.token_id, other.logprob, tokenizer));
}

void TokenLogprobs::Clear() {
  tokens_.clear();
  top_.clear();
  bytes_.clear();
}

TokenLogprobs::Scored TokenLogprobs::Score(engine::TokenId token_id, float logprob, const text::Tokenizer* tokenizer) {
  const size_t first = bytes_.size();
  if (tokenizer != nullptr) {
    const absl::StatusOr<std::string> bytes = tokenizer->TokenBytes(token_id);
    if (bytes.ok()) bytes_.append(*bytes);
  }
  return {token_id, logprob, first, bytes_.size() - first};
}

}  // namespace dunlin::server
