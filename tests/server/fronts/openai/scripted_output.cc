// SPDX-License-Identifier: Apache-2.0
#include "tests/server/fronts/openai/scripted_output.h"

#include <memory>

namespace dunlin::server {

ResponseFacts TestFacts() {
  return {.created = 1700000000, .version = "9.9.9", .cpu_variant = "avx2"};
}

const text::Tokenizer& TestTokenizer() {
  static const std::unique_ptr<text::Tokenizer> tokenizer =
      text::Tokenizer::Load(DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2", 0).value();
  return *tokenizer;
}

ChunkScript& ChunkScript::Chunk(int32_t index) {
  const bool first = chunks_.empty();
  chunks_.emplace_back().index = index;
  if (first) {
    last().request_id = "r1";
    last().profile = engine::ExecutionProfile();
    last().num_prompt_tokens = 5;
  }
  return *this;
}

ChunkScript& ChunkScript::Tokens(int32_t count) {
  for (int32_t i = 0; i < count; ++i) last().token_ids.push_back(next_id_++);
  return *this;
}

ChunkScript& ChunkScript::Text(std::string_view text) {
  last().text.append(text);
  return *this;
}

ChunkScript& ChunkScript::Reasoning(std::string_view text) {
  last().reasoning.append(text);
  return *this;
}

ChunkScript& ChunkScript::Call(int32_t tool_index, std::string_view id, std::string_view name,
                               std::string_view arguments) {
  last().tool_calls.push_back({.tool_index = tool_index,
                               .id = std::string(id),
                               .name = std::string(name),
                               .arguments = std::string(arguments)});
  return *this;
}

ChunkScript& ChunkScript::Scored(engine::TokenId id, engine::TokenId other) {
  const engine::TopLogprob top[] = {{id, -0.5F}, {other, -1.25F}};
  last().token_ids.push_back(id);
  last().logprobs.Add({.id = id, .logprob = -0.5F, .rank = 1}, top, &TestTokenizer());
  return *this;
}

ChunkScript& ChunkScript::PromptScored(engine::TokenId id) {
  const engine::TopLogprob top[] = {{id, -2.5F}};
  last().prompt_logprobs.Add({.id = id, .logprob = -2.5F, .rank = 1}, top, &TestTokenizer());
  return *this;
}

ChunkScript& ChunkScript::Finish(engine::FinishReason reason) {
  OutputFinish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 5, .cached_tokens = 2, .completion_tokens = 0};
  for (const OutputChunk& chunk : chunks_) {
    if (chunk.index == last().index) finish.usage.completion_tokens += static_cast<int32_t>(chunk.token_ids.size());
  }
  finish.timings = {.queue_ms = 0.5, .ttft_ms = 2.0, .total_ms = 8.25};
  last().finish = finish;
  return *this;
}

ChunkScript& ChunkScript::StopString(std::string_view stop) {
  last().finish->stop_string = std::string(stop);
  return *this;
}

ChunkScript& ChunkScript::ConstraintError(std::string_view message) {
  last().finish->constraint_error = std::string(message);
  return *this;
}

ChunkScript& ChunkScript::WithToolCalls() {
  last().finish->has_tool_calls = true;
  return *this;
}

ChunkScript& ChunkScript::Drafted(int32_t drafted, int32_t accepted) {
  last().finish->usage.drafted_tokens = drafted;
  last().finish->usage.accepted_tokens = accepted;
  return *this;
}

std::string ChunkScript::Run(RequestTranslator* translator, const absl::Status& status) const {
  std::string out;
  for (const OutputChunk& chunk : chunks_) translator->OnChunk(chunk, &out);
  translator->OnEnd({.status = status, .request_id = "r1"}, &out);
  return out;
}

}  // namespace dunlin::server
