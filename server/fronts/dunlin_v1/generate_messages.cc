// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/generate_messages.h"

#include <utility>

#include "absl/status/statusor.h"
#include "engine/request/field_checks.h"
#include "server/fronts/dunlin_v1/chat_messages.h"
#include "server/fronts/dunlin_v1/execution.h"
#include "server/fronts/dunlin_v1/field_names.h"
#include "server/grpc_calls/draw_param_fields.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

ClientPrompt PromptFromWire(v1::GenerateRequest* wire) {
  switch (wire->input_case()) {
    case v1::GenerateRequest::kText:
      return std::move(*wire->mutable_text());
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = wire->token_ids().ids();
      return std::vector<engine::TokenId>(ids.begin(), ids.end());
    }
    case v1::GenerateRequest::kChat:
      return ChatFromWire(wire->mutable_chat());
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return std::monostate();
}

void SamplingFromWire(const v1::GenerateRequest& request, ClientSampling* out) {
  static const DrawParamFields kDrawParams(*v1::GenerateRequest::descriptor(), kGenerateFieldNames);
  kDrawParams.Read(request, out);
  const v1::Sampling& wire = request.sampling();
  if (wire.has_seed()) out->seed = wire.seed();
  out->logit_bias.assign(wire.logit_bias().begin(), wire.logit_bias().end());
  out->allowed_token_ids.assign(wire.allowed_token_ids().begin(), wire.allowed_token_ids().end());
  for (const v1::TokenIds& word : wire.bad_words_ids()) {
    out->bad_words_ids.emplace_back(word.ids().begin(), word.ids().end());
  }
  out->bad_words.assign(wire.bad_words().begin(), wire.bad_words().end());
  out->ignore_model_bans = wire.ignore_model_bans();
}

void StoppingFromWire(v1::Stopping* wire, ClientStopping* out) {
  if (wire->has_max_tokens()) out->max_tokens = wire->max_tokens();
  out->min_tokens = wire->min_tokens();
  for (std::string& stop : *wire->mutable_stop()) out->stop.push_back(std::move(stop));
  out->stop_token_ids.assign(wire->stop_token_ids().begin(), wire->stop_token_ids().end());
  out->ignore_eos = wire->ignore_eos();
  out->include_stop = wire->include_stop();
  out->clamp_max_tokens = wire->clamp_max_tokens();
}

void OutputFromWire(const v1::OutputOptions& wire, ClientOutput* out) {
  if (wire.has_logprobs()) out->logprobs = wire.logprobs();
  if (wire.has_prompt_logprobs()) out->prompt_logprobs = wire.prompt_logprobs();
  out->keep_special_tokens = wire.keep_special_tokens();
  out->omit_text = wire.omit_text();
  out->echo = wire.echo();
  out->raw_chat = wire.raw_chat_output();
}

ClientToolChoice ToolChoiceFromWire(v1::Chat* wire) {
  using Mode = ClientToolChoice::Mode;
  ClientToolChoice out;
  if (wire->has_parallel_tool_calls()) out.parallel = wire->parallel_tool_calls();
  switch (wire->tool_choice().mode()) {
    case v1::ToolChoice::MODE_NONE:
      out.mode = Mode::kNone;
      break;
    case v1::ToolChoice::MODE_REQUIRED:
      out.mode = Mode::kRequired;
      break;
    case v1::ToolChoice::MODE_NAMED:
      out.mode = Mode::kNamed;
      break;
    default:
      break;
  }
  out.name = std::move(*wire->mutable_tool_choice()->mutable_name());
  return out;
}

std::optional<text::GrammarSource> StructuredOutputFromWire(v1::StructuredOutput* wire) {
  using text::GrammarKind;
  switch (wire->constraint_case()) {
    case v1::StructuredOutput::kJsonSchema:
      return text::GrammarSource{GrammarKind::kJsonSchema, std::move(*wire->mutable_json_schema()), {}};
    case v1::StructuredOutput::kJsonObject:
      if (!wire->json_object()) return std::nullopt;
      return text::GrammarSource{GrammarKind::kJsonObject, {}, {}};
    case v1::StructuredOutput::kRegex:
      return text::GrammarSource{GrammarKind::kRegex, std::move(*wire->mutable_regex()), {}};
    case v1::StructuredOutput::kChoice: {
      const auto& texts = wire->choice().texts();
      return text::GrammarSource{GrammarKind::kChoice, {}, {texts.begin(), texts.end()}};
    }
    case v1::StructuredOutput::kGrammar:
      return text::GrammarSource{GrammarKind::kGrammar, std::move(*wire->mutable_grammar()), {}};
    case v1::StructuredOutput::CONSTRAINT_NOT_SET:
      break;
  }
  return std::nullopt;
}

void LogprobsToWire(const TokenLogprobs& logprobs, google::protobuf::RepeatedPtrField<v1::TokenLogprob>* wire) {
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    v1::TokenLogprob* out = wire->Add();
    out->set_token_id(entry.token_id);
    out->set_logprob(entry.logprob);
    out->set_rank(entry.rank);
    out->set_token_bytes(entry.bytes.data(), entry.bytes.size());
    for (const TokenLogprobs::Scored& top : entry.top) {
      v1::TopLogprob* out_top = out->add_top();
      out_top->set_token_id(top.token_id);
      out_top->set_logprob(top.logprob);
      const std::string_view bytes = logprobs.BytesOf(top);
      out_top->set_token_bytes(bytes.data(), bytes.size());
    }
  }
}

v1::FinishReason ReasonToWire(const OutputFinish& finish) {
  switch (finish.reason) {
    case engine::FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case engine::FinishReason::kConstraint:
      return v1::FINISH_REASON_CONSTRAINT;
    default:
      return finish.has_tool_calls ? v1::FINISH_REASON_TOOL_CALLS : v1::FINISH_REASON_STOP;
  }
}

void FinishToWire(const OutputFinish& finish, v1::Finish* wire) {
  wire->set_reason(ReasonToWire(finish));
  wire->mutable_usage()->set_prompt_tokens(finish.usage.prompt_tokens);
  wire->mutable_usage()->set_cached_tokens(finish.usage.cached_tokens);
  wire->mutable_usage()->set_completion_tokens(finish.usage.completion_tokens);
  wire->mutable_usage()->set_drafted_tokens(finish.usage.drafted_tokens);
  wire->mutable_usage()->set_accepted_tokens(finish.usage.accepted_tokens);
  wire->mutable_timings()->set_queue_ms(finish.timings.queue_ms);
  wire->mutable_timings()->set_ttft_ms(finish.timings.ttft_ms);
  wire->mutable_timings()->set_total_ms(finish.timings.total_ms);
  if (finish.stop_token_id.has_value()) wire->set_stop_token_id(*finish.stop_token_id);
  if (finish.stop_string.has_value()) wire->set_stop(*finish.stop_string);
  wire->set_constraint_error(finish.constraint_error);
}

}  // namespace

absl::Status GenerateRequestFromWire(v1::GenerateRequest* wire, ClientRequest* request) {
  request->field_names = &kGenerateFieldNames;
  request->request_id = std::move(*wire->mutable_request_id());
  request->model = std::move(*wire->mutable_model());
  if (wire->has_chat()) {
    const auto mode = wire->chat().tool_choice().mode();
    const auto violation = engine::CheckInt(ClientField::kToolChoice, mode, 0, v1::ToolChoice::Mode_MAX);
    if (violation.has_value()) return InvalidField(*violation, kGenerateFieldNames);
    request->tool_choice = ToolChoiceFromWire(wire->mutable_chat());
  }
  request->prompt = PromptFromWire(wire);
  if (wire->has_truncate_prompt_tokens()) request->truncate_prompt_tokens = wire->truncate_prompt_tokens();
  request->parse_special_tokens = wire->parse_special_tokens();
  SamplingFromWire(*wire, &request->sampling);
  if (wire->sampling().has_n()) request->num_outputs = wire->sampling().n();
  StoppingFromWire(wire->mutable_stopping(), &request->stopping);
  OutputFromWire(wire->output(), &request->output);
  request->structured_output = StructuredOutputFromWire(wire->mutable_structured_output());
  request->priority = wire->priority();
  request->cache_salt = std::move(*wire->mutable_cache_salt());
  const absl::StatusOr<engine::ExecutionChoice> choice = ChoiceFromWire(wire->execution(), kGenerateFieldNames);
  if (!choice.ok()) return choice.status();
  request->execution = *choice;
  return absl::OkStatus();
}

void ChunkToWire(const OutputChunk& chunk, v1::GenerateResponse* wire) {
  wire->Clear();
  wire->set_request_id(chunk.request_id);
  if (chunk.profile.has_value()) {
    *wire->mutable_execution() = ToWire(*chunk.profile);
    wire->mutable_execution()->set_adapter(chunk.adapter);
    wire->mutable_execution()->set_ranks(chunk.num_ranks);
  }
  wire->set_index(chunk.index);
  wire->mutable_token_ids()->Add(chunk.token_ids.begin(), chunk.token_ids.end());
  wire->set_text_delta(chunk.text);
  wire->set_reasoning_delta(chunk.reasoning);
  for (const ToolCallDelta& delta : chunk.tool_calls) {
    v1::ToolCallDelta* out = wire->add_tool_call_delta();
    out->set_tool_index(delta.tool_index);
    out->set_id(delta.id);
    out->set_name(delta.name);
    out->set_arguments_delta(delta.arguments);
  }
  LogprobsToWire(chunk.logprobs, wire->mutable_logprobs());
  LogprobsToWire(chunk.prompt_logprobs, wire->mutable_prompt_logprobs());
  if (chunk.finish.has_value()) FinishToWire(*chunk.finish, wire->mutable_finish());
}

}  // namespace dunlin::server
