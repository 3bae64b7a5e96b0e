// SPDX-License-Identifier: Apache-2.0
#include "tests/server/serving/scripted_runtime.h"

#include <chrono>
#include <thread>

namespace dunlin::server {

absl::StatusOr<engine::StepHandle> ScriptedRuntime::Launch(const engine::StepPlan& plan) {
  while (control_->held.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (control_->fail.load()) return absl::InternalError("broken, as asked");
  if (const int us = control_->step_us.load(); us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
  plan_ = &plan;
  return engine::StepHandle{0};
}

absl::Status ScriptedRuntime::Collect(engine::StepHandle, engine::StepResult* result) {
  for (size_t i = 0; i < plan_->sequences.size(); ++i) {
    RunSequence(plan_->sequences[i], static_cast<int32_t>(i), result);
  }
  return absl::OkStatus();
}

void ScriptedRuntime::RunSequence(const engine::SequenceStep& step, int32_t index, engine::StepResult* result) {
  const auto tokens = plan_->TokensOf(step);
  for (int32_t i = 0; i < step.num_tokens; ++i) {
    *TokenAt(step, step.first_position + i) = tokens[static_cast<size_t>(i)];
  }
  for (int32_t p = step.first_scored; p < step.first_scored + step.num_scored; ++p) {
    const engine::TokenId scored = tokens[static_cast<size_t>(p - step.first_position)];
    result->prompt_scores.push_back({index, p, OutputOf(scored, step.prompt_logprobs)});
  }
  engine::StepOutput& output = result->outputs.emplace_back();
  if (!step.samples) return;
  const int32_t k = step.row.position - step.prompt_len;
  output.numerical_error = step.row.seed == NumericalErrorAt(static_cast<uint64_t>(k));
  output.sampled = !output.numerical_error;
  output.token = OutputOf(*TokenAt(step, (k + step.output_index) % step.prompt_len), step.row.logprobs);
  control_->tokens.fetch_add(1);
}

engine::TokenId* ScriptedRuntime::TokenAt(const engine::SequenceStep& step, int32_t position) {
  const engine::PageId page = plan_->PagesOf(step)[static_cast<size_t>(position / kPageTokens)];
  return &tokens_[static_cast<size_t>(page * kPageTokens + position % kPageTokens)];
}

engine::TokenOutput ScriptedRuntime::OutputOf(engine::TokenId id, int32_t num_top) {
  engine::TokenOutput token;
  token.token_id = id;
  token.logprob = LogprobOf(id);
  token.rank = id + 1;
  token.num_top = std::max(num_top, 0);
  for (int32_t t = 0; t < token.num_top; ++t) token.top[static_cast<size_t>(t)] = {t, LogprobOf(t)};
  return token;
}

}  // namespace dunlin::server
