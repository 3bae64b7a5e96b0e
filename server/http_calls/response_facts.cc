// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/response_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/json/json_text.h"

namespace dunlin::server {

std::string Fingerprint(const ResponseFacts& facts, const engine::ExecutionProfile& profile) {
  return absl::StrCat("dunlin-", facts.version, "-", facts.cpu_variant, "-", kernels::Name(profile.device), "-",
                      kernels::Name(profile.attention_backend), "-", kernels::Name(profile.precision));
}

void AppendExecution(const engine::ExecutionProfile& profile, std::string* out, std::string_view adapter,
                     int32_t num_ranks) {
  absl::StrAppend(out, "{\"device\":\"", kernels::Name(profile.device), "\",\"attention_backend\":\"",
                  kernels::Name(profile.attention_backend), "\",\"precision\":\"", kernels::Name(profile.precision));
  if (profile.precision == engine::Precision::kFp8) {
    absl::StrAppend(out, "\",\"recipe\":\"", engine::Traits(profile.fp8_recipe).name);
  }
  absl::StrAppend(out, "\",\"kv_dtype\":\"", kernels::Name(profile.kv_dtype()),
                  profile.checkpoint_quantization ? "\",\"checkpoint_quantization\":true" : "\"",
                  profile.int8_inputs ? ",\"int8_inputs\":true" : "");
  if (!adapter.empty()) {
    out->push_back(',');
    AppendJsonMember("adapter", adapter, out);
  }
  if (num_ranks > 1) absl::StrAppend(out, ",\"ranks\":", num_ranks);
  out->push_back('}');
}

void AppendTimings(const Timings& timings, std::string* out) {
  out->append("{\"queue_ms\":");
  AppendJsonNumber(timings.queue_ms, out);
  out->append(",\"ttft_ms\":");
  AppendJsonNumber(timings.ttft_ms, out);
  out->append(",\"total_ms\":");
  AppendJsonNumber(timings.total_ms, out);
  out->push_back('}');
}

void CallTotals::CountPrompt(const OutputChunk& chunk) {
  if (!chunk.profile.has_value() && !chunk.finish.has_value()) return;
  Prompt& prompt = prompts_[chunk.index / outputs_per_prompt];
  if (prompt.tokens == 0) {
    prompt.tokens = chunk.finish.has_value() ? chunk.finish->usage.prompt_tokens : chunk.num_prompt_tokens;
    usage.prompt_tokens += prompt.tokens;
  }
  if (!chunk.finish.has_value()) return;
  // Outputs 1 and up of a prompt find in the cache what output 0 computed.
  const int32_t cached = chunk.finish->usage.cached_tokens;
  const int32_t fewest = std::min(prompt.cached_tokens.value_or(cached), cached);
  usage.cached_tokens += fewest - prompt.cached_tokens.value_or(0);
  prompt.cached_tokens = fewest;
}

void CallTotals::Count(const OutputChunk& chunk) {
  CountPrompt(chunk);
  if (!chunk.reasoning.empty() && chunk.text.empty() && chunk.tool_calls.empty()) {
    reasoning_tokens += static_cast<int32_t>(chunk.token_ids.size());
  }
  if (!chunk.finish.has_value()) return;
  const OutputFinish& finish = *chunk.finish;
  constraint_error.reset();
  if (finish.reason == engine::FinishReason::kConstraint) constraint_error = finish.constraint_error;
  usage.completion_tokens += finish.usage.completion_tokens;
  usage.drafted_tokens += finish.usage.drafted_tokens;
  usage.accepted_tokens += finish.usage.accepted_tokens;
  if (!any_finish) {
    timings = finish.timings;
  } else {
    timings.queue_ms = std::min(timings.queue_ms, finish.timings.queue_ms);
    timings.ttft_ms = std::min(timings.ttft_ms, finish.timings.ttft_ms);
    timings.total_ms = std::max(timings.total_ms, finish.timings.total_ms);
  }
  any_finish = true;
}

void AppendCompletionDetails(const CallTotals& totals, std::string* out) {
  const bool reasons = totals.reasoning_tokens > 0;
  const Usage& usage = totals.usage;
  if (!reasons && usage.drafted_tokens == 0) return;
  out->append(",\"completion_tokens_details\":{");
  if (reasons) absl::StrAppend(out, "\"reasoning_tokens\":", totals.reasoning_tokens);
  if (usage.drafted_tokens > 0) {
    absl::StrAppend(out, reasons ? "," : "", "\"accepted_prediction_tokens\":", usage.accepted_tokens,
                    ",\"rejected_prediction_tokens\":", usage.drafted_tokens - usage.accepted_tokens);
  }
  out->push_back('}');
}

void AppendConstraintEnd(const std::string& constraint_error, std::string* out) {
  out->append("\"finish_reason\":\"constraint\"");
  if (constraint_error.empty()) return;
  out->push_back(',');
  AppendJsonMember("message", constraint_error, out);
}

void AppendSpeculation(const Usage& usage, std::string* out) {
  if (usage.drafted_tokens == 0) return;
  absl::StrAppend(out, ",\"speculation\":{\"drafted_tokens\":", usage.drafted_tokens,
                  ",\"accepted_tokens\":", usage.accepted_tokens, "}");
}

void AppendRun(std::string_view execution, std::string_view fingerprint, const CallTotals& totals, std::string* out) {
  absl::StrAppend(out, ",\"dunlin\":{\"execution\":", engine::AbslView(execution.empty() ? "null" : execution),
                  ",\"system_fingerprint\":\"", engine::AbslView(fingerprint), "\"");
  if (totals.any_finish) {
    out->append(",\"timings\":");
    AppendTimings(totals.timings, out);
    AppendSpeculation(totals.usage, out);
  }
  if (totals.constraint_error.has_value()) {
    out->push_back(',');
    AppendConstraintEnd(*totals.constraint_error, out);
  }
  out->push_back('}');
}

}  // namespace dunlin::server
