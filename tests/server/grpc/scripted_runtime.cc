#include "tests/server/grpc/scripted_runtime.h"

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
    const engine::SequenceStep& step = plan_->sequences[i];
    const engine::Request& request = step.sequence->request;
    for (int32_t p = step.first_position; p < step.first_position + step.num_tokens; ++p) {
      if (request.sampling.prompt_logprobs < 0 || p + 1 >= step.sequence->prompt_len) continue;
      const engine::TokenId next = request.prompt[static_cast<size_t>(p) + 1];
      result->prompt_scores.push_back(
          {static_cast<int32_t>(i), p + 1, OutputOf(next, request.sampling.prompt_logprobs)});
    }
    engine::StepOutput& output = result->outputs.emplace_back();
    if (!step.samples) continue;
    const int32_t k = step.sequence->num_output();
    output.numerical_error = request.sampling.seed == NumericalErrorAt(static_cast<uint64_t>(k));
    output.sampled = !output.numerical_error;
    output.token = OutputOf(TokenAt(request, k), request.sampling.logprobs);
    control_->tokens.fetch_add(1);
  }
  return absl::OkStatus();
}

engine::TokenOutput ScriptedRuntime::OutputOf(engine::TokenId id, int32_t num_top) {
  engine::TokenOutput token;
  token.token_id = id;
  token.logprob = LogprobOf(id);
  token.num_top = std::max(num_top, 0);
  for (int32_t t = 0; t < token.num_top; ++t) token.top[static_cast<size_t>(t)] = {t, LogprobOf(t)};
  return token;
}

}  // namespace dunlin::server
