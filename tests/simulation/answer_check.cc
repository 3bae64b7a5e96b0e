// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/answer_check.h"

#include <algorithm>

#include "engine/sampling/sample_rows.h"
#include "tests/simulation/fake_model.h"

namespace dunlin::simulation {
namespace {

using engine::FinishInfo;
using engine::FinishReason;

bool IsComplete(FinishReason reason) {
  return reason == FinishReason::kStop || reason == FinishReason::kLength || reason == FinishReason::kNumerical ||
         reason == FinishReason::kConstraint;
}

// known: whether the fault of the request, if it has one, is met.
std::string CheckTokens(const Told& told, const Answer& alone, bool known) {
  const RecordingSink& sink = *told.sink;
  if (sink.late) return "sink calls out of order";
  if (sink.tokens.size() > alone.tokens.size() ||
      !std::equal(sink.tokens.begin(), sink.tokens.end(), alone.tokens.begin())) {
    return "the tokens are not those of the request run alone";
  }
  if (!known && sink.info.reason == FinishReason::kNumerical) return "";
  const bool complete = IsComplete(sink.info.reason) && !told.ended_from_outside;
  if (complete && (sink.tokens.size() != alone.tokens.size() || sink.info.reason != alone.reason)) {
    return "it ends with reason " + std::to_string(static_cast<int>(sink.info.reason)) + " after " +
           std::to_string(sink.tokens.size()) + " tokens, alone with " +
           std::to_string(static_cast<int>(alone.reason)) + " after " + std::to_string(alone.tokens.size());
  }
  if (known && !sink.tokens.empty() && sink.scores != alone.prompt_scores) return "prompt scores differ";
  return "";
}

std::string CheckReason(const Told& told) {
  const FinishInfo& info = told.sink->info;
  const engine::TimeNs deadline = told.request->deadline;
  const bool by_deadline = info.reason == FinishReason::kDeadline;
  const bool dropped = by_deadline && info.first_scheduled == 0;
  if (by_deadline ? info.finished < deadline && !dropped : info.finished >= deadline && !told.ended_from_outside) {
    return "the deadline was not kept";
  }
  if (info.reason == FinishReason::kSlowReader && told.sink->tokens.size() != told.sink_room) {
    return "its reader was not slow";
  }
  const size_t refused = info.reason == FinishReason::kSlowReader ? 1 : 0;
  if (info.completion_tokens != static_cast<int32_t>(told.sink->tokens.size() + refused)) {
    return "completion tokens are miscounted";
  }
  if (info.prompt_tokens != static_cast<int32_t>(told.request->prompt.size())) return "prompt tokens are miscounted";
  if (info.cached_tokens < 0 || info.cached_tokens >= info.prompt_tokens) return "more is cached than can be";
  if (info.first_token > 0 && (info.first_scheduled == 0 || info.first_token < info.first_scheduled)) {
    return "its first token came before its first step";
  }
  return "";
}

// Whether a position before the last of the prompt is poisoned.
bool HasFaultInPrompt(const engine::Request& request) {
  const auto prompt_len = static_cast<int32_t>(request.prompt.size());
  for (int32_t position = 0; position + 1 < prompt_len; ++position) {
    if (IsPoisonedAt(engine::SeedOfOutput(request.sampling.seed, request.output_index), position)) return true;
  }
  return false;
}

}  // namespace

std::string CheckAnswer(const Told& told, const ReferenceModel& model) {
  ReferenceModel expected = model;
  expected.faults = !HasFaultInPrompt(*told.request);
  const Answer alone = RunAlone(*told.request, {kEos}, expected);
  const std::string problem = CheckTokens(told, alone, expected.faults);
  return problem.empty() ? CheckReason(told) : problem;
}

}  // namespace dunlin::simulation
