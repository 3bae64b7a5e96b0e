// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/generation_plan.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/string_view.h"
#include "engine/loop/deadline_gate.h"
#include "engine/loop/validate.h"
#include "engine/request/field_checks.h"
#include "server/access/tenant.h"
#include "server/serving/chat/chat_plan.h"
#include "server/serving/chat/chat_prompt.h"
#include "server/serving/generation/check_structured_output.h"
#include "server/serving/generation/output_length.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/entropy.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/check_request.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/resolve.h"
#include "server/serving/text/bad_words.h"
#include "server/serving/text/encode_text.h"
#include "server/serving/text/prompt_overflow.h"
#include "server/serving/text/unembedded_tokens.h"

namespace dunlin::server {
namespace {

using engine::Violation;
using C = ClientField;
using F = engine::RequestField;

constexpr size_t kPromptTail = 16;  // what StreamDecoder::Create needs to continue a text

absl::Status PlanStatus(const std::optional<Violation>& violation, const ClientRequest& client) {
  return violation.has_value() ? InvalidField(*violation, *client.field_names) : absl::OkStatus();
}

// The model's defaults, overridden by the fields that the client has set.
engine::SamplingParams Sampling(ClientRequest* client, const ServedModel& model) {
  ClientSampling& named = client->sampling;
  engine::SamplingParams params = model.sampling_defaults;
  if (named.greedy_by_default && !model.names_temperature) params.temperature = 0.0F;
  engine::Apply(named, &params);
  if (client->output.logprobs.has_value()) params.logprobs = *client->output.logprobs;
  if (client->output.prompt_logprobs.has_value()) params.prompt_logprobs = *client->output.prompt_logprobs;
  params.logit_bias = std::move(named.logit_bias);
  params.allowed_token_ids = std::move(named.allowed_token_ids);
  if (named.ignore_model_bans) {
    params.suppressed_token_ids.clear();
    params.begin_suppressed_token_ids.clear();
    params.bad_words.clear();
  }
  // The client's come first, so that an error's index is the client's.
  params.bad_words.insert(params.bad_words.begin(), std::make_move_iterator(named.bad_words_ids.begin()),
                          std::make_move_iterator(named.bad_words_ids.end()));
  params.seed = named.seed.has_value() ? *named.seed : DrawSeed();
  return params;
}

engine::StoppingParams Stopping(ClientRequest* client, int32_t max_context_tokens) {
  engine::StoppingParams params;
  params.max_tokens = MaxTokensBeforePrompt(client->stopping, max_context_tokens);
  params.min_tokens = client->stopping.min_tokens;
  params.stop_token_ids = std::move(client->stopping.stop_token_ids);
  params.ignore_eos = client->stopping.ignore_eos;
  return params;
}

// The checks that are possible before the prompt is tokenised.
absl::Status CheckBeforeTokenising(const ClientRequest& client, const ServedModel& model,
                                   const engine::Request& request) {
  const engine::RequestLimits& limits = model.engine->limits();
  if (absl::Status s = PlanStatus(CheckGenerateFields(client), client); !s.ok()) return s;
  const auto length = CheckOutputLength(client.stopping, limits.max_context_tokens);
  if (absl::Status s = PlanStatus(length, client); !s.ok()) return s;
  if (absl::Status s = PlanStatus(engine::CheckParams(request, limits), client); !s.ok()) return s;
  if (!client.stopping.stop.empty() && model.tokenizer == nullptr) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; stop strings need one");
  }
  if ((!client.sampling.bad_words.empty() || client.output.echo) && model.tokenizer == nullptr) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; bad_words and echo need one");
  }
  if (client.structured_output.has_value()) {
    if (absl::Status s = PlanStatus(CheckStructuredOutput(*client.structured_output), client); !s.ok()) return s;
  }
  if (client.truncate_prompt_tokens.has_value()) {
    const auto v =
        engine::CheckInt(C::kTruncatePromptTokens, *client.truncate_prompt_tokens, 1, limits.max_context_tokens);
    if (v.has_value()) return PlanStatus(v, client);
  }
  if (std::holds_alternative<text::ChatInput>(client.prompt)) return CheckChats(model);
  if (std::holds_alternative<std::string>(client.prompt) && model.tokenizer == nullptr) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; it takes token_ids only");
  }
  return PlanStatus(CheckPromptForm(client.prompt), client);
}

// Refuses what would end too late as soon as that can be known.
absl::Status CheckDeadline(const ServingCore& core, const ServedModel& model, const ClientRequest& client,
                           const engine::StoppingParams& stopping, engine::TimeNs deadline) {
  engine::DeadlineDemand demand = {.tenant = TenantOf(client.principal.name),
                                   .priority = client.priority,
                                   .stopping = stopping,
                                   .num_outputs = client.num_outputs,
                                   .deadline = deadline};
  // The grammar's end or a stop string may end the output.
  if (client.structured_output.has_value() || !client.stopping.stop.empty()) demand.stopping.ignore_eos = false;
  if (!client.stopping.max_tokens.has_value()) {
    demand.stopping.max_tokens =
        DefaultMaxTokens(stopping.max_tokens, core.limits().default_max_tokens, model.default_max_tokens);
  }
  const std::optional<engine::DeadlineMiss> miss = model.engine->CheckDeadline(demand);
  if (!miss.has_value()) return absl::OkStatus();
  return WouldMissDeadline(*miss, deadline - core.now(), core.limits().retry_after_ms);
}

// The sequences of the texts join the others, so that there may be too many, or none of the allowed tokens left.
absl::Status SetBadWords(const ClientRequest& client, const ServedModel& model, engine::Request* request) {
  engine::SamplingParams* params = &request->sampling;
  const FieldNames& names = *client.field_names;
  for (size_t i = 0; i < client.sampling.bad_words.size(); ++i) {
    if (const auto v = AppendBadWord(client.sampling.bad_words[i], static_cast<int64_t>(i), *model.tokenizer,
                                     &params->bad_words)) {
      return InvalidField(*v, names);
    }
  }
  DropEndOfSequence(model.model->config().eos_token_ids, &params->bad_words);
  DropUnembedded(model, params, &request->stopping);
  if (client.sampling.bad_words.empty()) return absl::OkStatus();
  return PlanStatus(engine::CheckSampling(*params, model.engine->limits().vocab_size), client);
}

// The engine only knows token prompts; for a client that sent text or a chat, the error names that.
Violation AsClientSent(Violation violation, const ClientRequest& client) {
  if (violation.field == F::kPromptTokens) {
    if (std::holds_alternative<std::string>(client.prompt)) violation.field = C::kPromptText;
    if (std::holds_alternative<text::ChatInput>(client.prompt)) violation.field = C::kChat;
  }
  return violation;
}

// prompt_tokens: as far as they were counted.
absl::Status OverflowStatus(const Violation& violation, const ClientRequest& client, const engine::Request& request,
                            size_t prompt_tokens, bool at_least, const engine::RequestLimits& limits) {
  const int64_t most = std::min(static_cast<int64_t>(engine::MaxPromptTokens(limits)),
                                engine::OutputRoom(0, request.profile.precision, limits) - 1);
  return PromptOverflowed(AsClientSent(violation, client), *client.field_names,
                          {.context_tokens = limits.max_context_tokens,
                           .max_prompt_tokens = most,
                           .prompt_tokens = static_cast<int64_t>(prompt_tokens),
                           .at_least = at_least});
}

// Of a prompt that was not read to its end.
absl::Status OverflowedUncounted(const ClientRequest& client, const engine::Request& request,
                                 const engine::RequestLimits& limits) {
  return OverflowStatus(engine::PromptTooLong(limits), client, request, engine::MaxCountedPromptTokens(limits) + 1,
                        /*at_least=*/true, limits);
}

// *chat_text: of a chat, the prompt's text. *images: of a chat.
absl::Status TakePrompt(const ServingCore& core, const ServedModel& model, ClientRequest* client,
                        engine::Request* request, std::string* chat_text, std::vector<PromptImage>* images) {
  const engine::RequestLimits& limits = model.engine->limits();
  std::vector<engine::TokenId>* prompt = &request->prompt;
  // Of a prompt to be truncated the last tokens count, so that all of it is read.
  const size_t max_tokens =
      client->truncate_prompt_tokens.has_value() ? SIZE_MAX : engine::MaxCountedPromptTokens(limits);
  if (const auto* chat = std::get_if<text::ChatInput>(&client->prompt)) {
    absl::StatusOr<ChatPrompt> rendered = MakeChatPrompt(core, model, *chat, max_tokens, *client->field_names);
    if (absl::IsOutOfRange(rendered.status())) return OverflowedUncounted(*client, *request, limits);
    if (!rendered.ok()) return rendered.status();
    *prompt = std::move(rendered->token_ids);
    *chat_text = std::move(rendered->text);
    *images = std::move(rendered->images);
    return absl::OkStatus();
  }
  if (auto* ids = std::get_if<std::vector<engine::TokenId>>(&client->prompt)) {
    *prompt = std::move(*ids);
    return absl::OkStatus();
  }
  const text::EncodeOptions options{.parse_special = client->parse_special_tokens, .max_tokens = max_tokens};
  absl::StatusOr<std::vector<engine::TokenId>> ids =
      EncodeText(core, *model.tokenizer, std::get<std::string>(client->prompt), options);
  if (absl::IsOutOfRange(ids.status())) return OverflowedUncounted(*client, *request, limits);
  if (!ids.ok()) {
    const std::string problem(engine::StdView(ids.status().message()));
    return InvalidField(Violation::Of(C::kPromptText, problem, ""), *client->field_names);
  }
  *prompt = *std::move(ids);
  return absl::OkStatus();
}

// Of a chat with images.
absl::Status CheckBesideImages(const ClientRequest& client) {
  constexpr char kAlone[] = "chats without images";
  if (client.truncate_prompt_tokens.has_value()) {
    return PlanStatus(Violation::Of(C::kTruncatePromptTokens, "is given with images", kAlone), client);
  }
  if (client.output.prompt_logprobs.has_value()) {
    return PlanStatus(Violation::Of(F::kPromptLogprobs, "is given with images", kAlone), client);
  }
  return absl::OkStatus();
}

void TruncatePrompt(std::optional<int32_t> keep, std::vector<engine::TokenId>* prompt) {
  if (!keep.has_value() || std::ssize(*prompt) <= *keep) return;
  prompt->erase(prompt->begin(), prompt->end() - *keep);
}

absl::Status CheckPromptOf(const ClientRequest& client, const engine::Request& request, const ServedModel& model) {
  const engine::RequestLimits& limits = model.engine->limits();
  std::optional<Violation> violation = engine::CheckPrompt(request, limits);
  if (!violation.has_value()) return absl::OkStatus();
  if (violation->field == F::kPromptTokens && !request.prompt.empty()) {
    return OverflowStatus(*violation, client, request, request.prompt.size(), /*at_least=*/false, limits);
  }
  if (violation->field == F::kPromptToken) {
    const engine::TokenId id = request.prompt[static_cast<size_t>(violation->index[0])];
    const bool is_ids = std::holds_alternative<std::vector<engine::TokenId>>(client.prompt);
    violation = is_ids ? NameUnembedded(*violation, id, model.tokenizer.get())
                       : UnembeddedIn(F::kPromptTokens, {}, id, *model.tokenizer);
  }
  return InvalidField(AsClientSent(*violation, client), *client.field_names);
}

void SettleMaxTokens(const ClientRequest& client, const Limits& limits, GenerationPlan* plan) {
  const ServedModel& model = *plan->model;
  const OutputLength length = SettleOutputLength(client.stopping, plan->request, model.engine->limits(),
                                                 limits.default_max_tokens, model.default_max_tokens);
  plan->request.stopping.max_tokens = length.max_tokens;
  plan->clamped_max_tokens = length.clamped;
  plan->reserved_tokens = length.reserved;
  plan->no_output = client.stopping.max_tokens == 0;
}

// REQUIRES: plan.prompt() is not reallocated from now on.
OutputText::Options TextOptions(const ClientRequest& client, const GenerationPlan& plan) {
  const engine::Request& request = plan.request;
  OutputText::Options options;
  options.tokenizer = client.output.omit_text ? nullptr : plan.model->tokenizer.get();
  options.echo = client.output.echo;
  const std::vector<engine::TokenId>& prompt = plan.prompt();
  options.prompt_tail = options.echo ? prompt : std::span(prompt).last(std::min(kPromptTail, prompt.size()));
  options.stop_strings = client.stopping.stop;
  options.include_stop = client.stopping.include_stop;
  options.keep_special_tokens = client.output.keep_special_tokens;
  options.logprobs = request.sampling.logprobs >= 0;
  options.token_bytes = plan.model->tokenizer.get();
  options.stop_token_ids = request.stopping.stop_token_ids;
  if (!request.stopping.ignore_eos) {
    const std::vector<engine::TokenId>& eos = plan.model->model->config().eos_token_ids;
    options.stop_token_ids.insert(options.stop_token_ids.end(), eos.begin(), eos.end());
  }
  return options;
}

}  // namespace

absl::StatusOr<GenerationPlan> PlanGeneration(ClientRequest client, const ServingCore& core, RequestRecord* record,
                                              engine::TimeNs deadline) {
  const CallContext call{core, client.principal, *client.field_names, record};
  absl::StatusOr<NamedModel> named = ResolveModel(call, client.model, &client.execution);
  if (!named.ok()) return named.status();
  GenerationPlan plan;
  plan.model = std::move(named->model);
  plan.request.adapter = std::move(named->adapter);
  if (plan.request.adapter.id != 0 && plan.request.adapter.adapter == nullptr) {
    return ModelNotServed(named->name, "has left the memory (models[].max_adapters)", core.limits().retry_after_ms);
  }
  const ServedModel& model = *plan.model;
  if (absl::Status s = CheckGenerates(model); !s.ok()) return s;
  if (client.untemplated_prompt.has_value() && model.chat_template == nullptr) {
    client.prompt = *std::move(client.untemplated_prompt);
  }
  const engine::RequestLimits& limits = model.engine->limits();

  engine::Request& request = plan.request;
  request.sampling = Sampling(&client, model);
  request.stopping = Stopping(&client, limits.max_context_tokens);
  DropUnembedded(model, &request.sampling, &request.stopping);
  request.priority = client.priority;
  request.cache_salt = std::move(client.cache_salt);
  request.bypass_prefix_cache = client.bypass_prefix_cache;
  plan.prompt_token_ids = client.output.prompt_token_ids;
  if (absl::Status s = CheckBeforeTokenising(client, model, request); !s.ok()) return s;
  if (absl::Status s = CheckKeyPriority(core.access(), client); !s.ok()) return s;
  request.cache_salt = CacheSaltOf(client.principal, request.cache_salt);
  std::sort(request.sampling.logit_bias.begin(), request.sampling.logit_bias.end());
  plan.num_outputs = record->num_outputs = client.num_outputs;
  record->temperature = request.sampling.temperature;
  record->top_p = request.sampling.top_p;

  if (absl::Status s = SetBadWords(client, model, &request); !s.ok()) return s;

  // Before the prompt is tokenised, which takes the most time.
  const absl::StatusOr<engine::ExecutionProfile> profile = ResolveProfile(call, model, client.execution);
  if (!profile.ok()) return profile.status();
  request.profile = *profile;
  request.max_drafts = client.execution.max_drafts;
  if (absl::Status s = CheckDeadline(core, model, client, request.stopping, deadline); !s.ok()) return s;
  std::string chat_text;
  if (absl::Status s = SettleToolChoice(model, &client); !s.ok()) return s;
  if (absl::Status s = TakePrompt(core, model, &client, &request, &chat_text, &plan.images); !s.ok()) return s;
  if (!plan.images.empty()) {
    if (absl::Status s = CheckBesideImages(client); !s.ok()) return s;
  }
  if (absl::Status s = SettleConstraint(model, chat_text, &client); !s.ok()) return s;
  TruncatePrompt(client.truncate_prompt_tokens, &request.prompt);
  record->prompt_tokens = static_cast<int32_t>(std::min(request.prompt.size(), text::kMaxTokenIds));
  SettleMaxTokens(client, core.limits(), &plan);
  if (absl::Status s = CheckPromptOf(client, request, model); !s.ok()) return s;
  if (!plan.images.empty()) plan.shown_prompt = request.prompt;
  record->num_images = static_cast<int32_t>(plan.images.size());
  record->max_tokens = plan.no_output ? 0 : request.stopping.max_tokens;
  plan.output_text = TextOptions(client, plan);
  plan.output_text.chat =
      PlanChatOutput(model, client, chat_text, static_cast<size_t>(core.limits().max_message_bytes));
  plan.grammar = std::move(client.structured_output);
  plan.field_names = client.field_names;
  return plan;
}

}  // namespace dunlin::server
