// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/choices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/error_body.h"
#include "server/http_calls/logprobs_text.h"
#include "server/json/json_text.h"

namespace dunlin::server {
namespace {

constexpr char kDone[] = "data: [DONE]\n\n";

// Nothing that a client sees has changed: the text of the tokens is held back, or they have none.
bool IsSilent(const OutputChunk& chunk, bool token_ids) {
  return chunk.text.empty() && chunk.reasoning.empty() && chunk.tool_calls.empty() && chunk.logprobs.empty() &&
         !chunk.finish.has_value() && (!token_ids || chunk.token_ids.empty());
}

}  // namespace

void ChoicesTranslator::SetOptions(const GenerationBody& body) {
  options_.stream = body.stream;
  options_.include_usage = body.include_usage;
  options_.continuous_usage = body.continuous_usage;
  options_.return_token_ids = body.return_token_ids;
  options_.logprobs = body.request->output.logprobs.has_value();
  options_.prompt_logprobs = body.request->output.prompt_logprobs.has_value();
  options_.model = body.request->model;
  totals_.outputs_per_prompt = std::max(body.request->num_outputs, 1);
}

const char* ChoicesTranslator::FinishName(const OutputFinish& finish) {
  // An output that its constraint ended may be incomplete: "length" is the reason for which clients expect that.
  if (finish.reason != engine::FinishReason::kStop) return "length";
  return finish.has_tool_calls ? "tool_calls" : "stop";
}

void ChoicesTranslator::Begin(const OutputChunk& first) {
  if (!head_.empty()) return;
  head_ = "{";
  AppendJsonMember("id", absl::StrCat(names_.id_prefix, first.request_id), &head_);
  absl::StrAppend(&head_, ",\"object\":\"", options_.stream ? names_.event_object : names_.object,
                  "\",\"created\":", facts_.created, ",");
  AppendJsonMember("model", options_.model, &head_);
  if (!first.profile.has_value()) return;
  head_.push_back(',');
  AppendJsonMember("system_fingerprint", Fingerprint(facts_, *first.profile), &head_);
  AppendExecution(*first.profile, &execution_, first.adapter, first.num_ranks);
}

void ChoicesTranslator::OnChunk(const OutputChunk& chunk, std::string* out) {
  Begin(chunk);
  totals_.Count(chunk);
  Choice& choice = choices_[chunk.index];
  choice.completion_tokens += static_cast<int32_t>(chunk.token_ids.size());
  if (!options_.stream) return Gather(chunk, &choice);
  if (choice.begun && IsSilent(chunk, options_.return_token_ids)) return;
  AppendEvent(chunk, &choice, out);
  choice.begun = true;
}

void ChoicesTranslator::AppendFinish(const OutputFinish* finish, std::string* out) const {
  if (finish == nullptr) {
    out->append(",\"finish_reason\":null");
    return;
  }
  absl::StrAppend(out, ",\"finish_reason\":\"", FinishName(*finish), "\"");
  if (finish->stop_string.has_value()) {
    out->push_back(',');
    AppendJsonMember("stop_reason", *finish->stop_string, out);
  } else if (finish->stop_token_id.has_value()) {
    absl::StrAppend(out, ",\"stop_reason\":", *finish->stop_token_id);
  }
  if (finish->reason != engine::FinishReason::kConstraint) return;
  out->append(",\"dunlin\":{");
  AppendConstraintEnd(finish->constraint_error, out);
  out->push_back('}');
}

void ChoicesTranslator::AppendEvent(const OutputChunk& chunk, Choice* choice, std::string* out) {
  absl::StrAppend(out, "data: ", head_, ",\"choices\":[{\"index\":", chunk.index);
  AppendDelta(chunk, choice, out);
  if (options_.return_token_ids) {
    out->append(",\"token_ids\":");
    AppendJsonIds(chunk.token_ids, out);
  }
  AppendFinish(chunk.finish.has_value() ? &*chunk.finish : nullptr, out);
  out->append("}]");
  if (options_.continuous_usage) {
    AppendContinuousUsage(out);
  } else if (options_.include_usage) {
    out->append(",\"usage\":null");
  }
  AppendExtension(chunk, out);
  out->append("}\n\n");
}

// The execution in the first event, an output's timings in its last.
void ChoicesTranslator::AppendExtension(const OutputChunk& chunk, std::string* out) const {
  if (!chunk.profile.has_value() && !chunk.finish.has_value()) return;
  out->append(",\"dunlin\":{");
  if (chunk.profile.has_value()) absl::StrAppend(out, "\"execution\":", execution_);
  if (chunk.finish.has_value()) {
    out->append(chunk.profile.has_value() ? ",\"timings\":" : "\"timings\":");
    AppendTimings(chunk.finish->timings, out);
  }
  out->push_back('}');
}

void ChoicesTranslator::AppendUsage(const CallTotals& totals, std::string* out) const {
  const Usage& usage = totals.usage;
  absl::StrAppend(out, ",\"usage\":{\"prompt_tokens\":", usage.prompt_tokens,
                  ",\"completion_tokens\":", usage.completion_tokens,
                  ",\"total_tokens\":", usage.prompt_tokens + usage.completion_tokens,
                  ",\"prompt_tokens_details\":{\"cached_tokens\":", usage.cached_tokens, "}");
  AppendCompletionDetails(totals, out);
  out->push_back('}');
}

void ChoicesTranslator::AppendContinuousUsage(std::string* out) const {
  CallTotals so_far = totals_;
  so_far.usage.completion_tokens = 0;
  for (const auto& [index, choice] : choices_) so_far.usage.completion_tokens += choice.completion_tokens;
  AppendUsage(so_far, out);
}

void ChoicesTranslator::Gather(const OutputChunk& chunk, Choice* choice) {
  choice->text.append(chunk.text);
  choice->reasoning.append(chunk.reasoning);
  GatherToolCalls(chunk.tool_calls, &choice->tool_calls);
  if (options_.return_token_ids) {
    choice->token_ids.insert(choice->token_ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  }
  if (options_.prompt_logprobs) AppendPromptLogprobs(chunk.prompt_logprobs, &choice->prompt_logprobs);
  GatherLogprobs(chunk, choice);
  if (chunk.finish.has_value()) choice->finish = chunk.finish;
}

void ChoicesTranslator::AppendDocument(std::string* out) {
  absl::StrAppend(out, head_, ",\"choices\":[");
  const char* separator = "";
  for (const auto& [index, choice] : choices_) {
    absl::StrAppend(out, separator, "{\"index\":", index);
    AppendChoice(index, choice, out);
    if (options_.return_token_ids) {
      out->append(",\"token_ids\":");
      AppendJsonIds(choice.token_ids, out);
    }
    if (options_.prompt_logprobs && !prompt_logprobs_on_top()) {
      absl::StrAppend(out, ",\"prompt_logprobs\":[null", choice.prompt_logprobs, "]");
    }
    AppendFinish(choice.finish.has_value() ? &*choice.finish : nullptr, out);
    out->push_back('}');
    separator = ",";
  }
  out->push_back(']');
  AppendUsage(totals_, out);
  if (options_.prompt_logprobs && prompt_logprobs_on_top()) {
    absl::StrAppend(out, ",\"prompt_logprobs\":[null", choices_[0].prompt_logprobs, "]");
  }
  absl::StrAppend(out, ",\"dunlin\":{\"execution\":", execution_.empty() ? "null" : execution_, ",\"timings\":");
  AppendTimings(totals_.timings, out);
  out->append("}}");
}

void ChoicesTranslator::OnEnd(const ResponseEnd& end, std::string* out) {
  if (!options_.stream) {
    if (end.status.ok()) AppendDocument(out);
    return;
  }
  if (!end.status.ok()) {
    absl::StrAppend(out, "data: ", OpenAiError(end.status), "\n\n", kDone);
    return;
  }
  if (options_.include_usage) {
    absl::StrAppend(out, "data: ", head_, ",\"choices\":[]");
    AppendUsage(totals_, out);
    out->append("}\n\n");
  }
  out->append(kDone);
}

std::string ChoicesTranslator::ErrorBody(const absl::Status& status) {
  return OpenAiError(status);
}

}  // namespace dunlin::server
