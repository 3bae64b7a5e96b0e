// SPDX-License-Identifier: Apache-2.0
#include "server/serving/embed/embed_plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/encoder/validate_encode.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/check_request.h"
#include "server/serving/resolve/resolve.h"
#include "server/serving/text/encode_text.h"
#include "server/serving/text/pair_tokens.h"
#include "server/serving/text/prompt_overflow.h"
#include "server/serving/text/unembedded_tokens.h"

namespace dunlin::server {
namespace {

using engine::TokenId;
using C = ClientField;
using F = engine::RequestField;
using TokenIds = std::vector<TokenId>;

absl::Status EmbedStatus(const std::optional<engine::Violation>& violation, const ClientEmbedRequest& client) {
  return violation.has_value() ? InvalidField(*violation, *client.field_names) : absl::OkStatus();
}

// The text before every input. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::string> PromptOf(const ServedModel& model, const ClientEmbedRequest& client) {
  const engine::EmbeddingSettings& settings = model.embedding;
  const std::string& name = client.prompt_name.empty() ? settings.default_prompt : client.prompt_name;
  if (name.empty()) return std::string();
  const auto found = settings.prompts.find(name);
  if (found != settings.prompts.end() && (settings.pools_prompt || found->second.empty())) return found->second;
  if (found != settings.prompts.end()) {
    const char* problem = "names a prompt, which the model's pooling would leave out (include_prompt is false)";
    return InvalidField(engine::Violation::Of(C::kPromptName, problem, ""), *client.field_names);
  }
  std::string known;
  for (const auto& [prompt, text] : settings.prompts) absl::StrAppend(&known, known.empty() ? "" : ", ", prompt);
  return InvalidField(
      engine::Violation::Of(C::kPromptName, "is not a prompt of the model", known.empty() ? "none" : known),
      *client.field_names);
}

// *truncate: in: whether the input may be truncated; out: whether it was. Errors: as Tokenizer::Encode, for an input
// with more tokens than are counted.
absl::StatusOr<TokenIds> TokensOf(const ServingCore& core, const ServedModel& model, const std::string& prompt,
                                  ClientEmbedInput* input, bool* truncate) {
  const engine::EncodeLimits& limits = model.encoder->limits();
  const auto limit = static_cast<size_t>(limits.max_input_tokens);
  if (auto* given = std::get_if<TokenIds>(input)) {
    *truncate = *truncate && given->size() > limit;
    if (*truncate) given->resize(limit);
    return std::move(*given);
  }
  const auto counted = static_cast<size_t>(engine::MaxCountedInputTokens(limits));
  const text::EncodeOptions options{.max_tokens = *truncate ? limit : counted, .truncate = *truncate};
  std::string& text = std::get<std::string>(*input);
  text.insert(0, prompt);
  return EncodeText(core, *model.tokenizer, text, options, truncate);
}

absl::Status EmbedOverflow(const engine::Violation& violation, const ClientEmbedRequest& client, int64_t num_tokens,
                           bool at_least, const engine::EncodeLimits& limits) {
  return PromptOverflowed(violation, *client.field_names,
                          {.context_tokens = limits.max_input_tokens,
                           .max_prompt_tokens = limits.max_input_tokens,
                           .prompt_tokens = num_tokens,
                           .at_least = at_least});
}

// Appends the tokens of every input to the call; stops at the first input that is too long.
absl::Status Tokenise(const ServingCore& core, ClientEmbedRequest* client, EmbedPlan* plan) {
  const engine::EncodeLimits& limits = plan->model->encoder->limits();
  engine::EncodeRequest& request = plan->call->request;
  const absl::StatusOr<std::string> prompt = PromptOf(*plan->model, *client);
  if (!prompt.ok()) return prompt.status();
  const auto is_ids = [](const ClientEmbedInput& input) { return std::holds_alternative<TokenIds>(input); };
  if (!client->prompt_name.empty() && !prompt->empty() &&
      std::any_of(client->inputs.begin(), client->inputs.end(), is_ids)) {
    return InvalidField(engine::Violation::Of(C::kPromptName, "names a prompt, which precedes texts alone",
                                              "no token ids among the inputs"),
                        *client->field_names);
  }
  for (size_t i = 0; i < client->inputs.size(); ++i) {
    bool truncated = client->truncate;
    const absl::StatusOr<TokenIds> ids = TokensOf(core, *plan->model, *prompt, &client->inputs[i], &truncated);
    if (absl::IsOutOfRange(ids.status())) {
      const int64_t least = engine::MaxCountedInputTokens(limits) + 1;
      return EmbedOverflow(engine::InputTooLong(i, limits), *client, least, /*at_least=*/true, limits);
    }
    if (!ids.ok()) {
      const std::string problem(engine::StdView(ids.status().message()));
      return InvalidField(engine::Violation::Of(C::kInputText, problem, "", {static_cast<int64_t>(i)}),
                          *client->field_names);
    }
    const auto num_tokens = static_cast<int64_t>(ids->size());
    const std::optional<engine::Violation> length = engine::CheckInputLength(i, num_tokens, limits);
    if (length.has_value() && num_tokens > 0) {
      return EmbedOverflow(*length, *client, num_tokens, /*at_least=*/false, limits);
    }
    if (absl::Status s = EmbedStatus(length, *client); !s.ok()) return s;
    request.tokens.insert(request.tokens.end(), ids->begin(), ids->end());
    request.lengths.push_back(static_cast<int32_t>(num_tokens));
    plan->truncated.push_back(truncated);
  }
  return absl::OkStatus();
}

// violation: a token that the model has no embedding for, at [input][token].
engine::Violation UnknownToken(const engine::Violation& violation, const ClientEmbedRequest& client,
                               const engine::EncodeRequest& request, const text::Tokenizer* tokenizer) {
  const auto input = static_cast<size_t>(violation.index[0]);
  const auto before =
      std::accumulate(request.lengths.begin(), request.lengths.begin() + violation.index[0], int64_t{0});
  const TokenId id = request.tokens[static_cast<size_t>(before + violation.index[1])];
  if (std::holds_alternative<TokenIds>(client.inputs[input])) return NameUnembedded(violation, id, tokenizer);
  return UnembeddedIn(C::kInputText, engine::FieldIndex{violation.index[0]}, id, *tokenizer);
}

bool HasText(const ClientEmbedRequest& client) {
  return std::any_of(client.inputs.begin(), client.inputs.end(),
                     [](const ClientEmbedInput& input) { return std::holds_alternative<std::string>(input); });
}

// Checks the fields of a call for vectors, and fills in what it asks for.
absl::Status PlanVectors(const ServingCore& core, ClientEmbedRequest* client, EmbedPlan* plan) {
  const ServedModel& model = *plan->model;
  if (absl::Status s = CheckEmbeds(model); !s.ok()) return s;
  const engine::EncodeLimits& limits = model.encoder->limits();
  engine::EncodeRequest& request = plan->call->request;
  request.pooling = client->pooling.value_or(model.embedding.pooling);
  request.normalize = client->normalize.value_or(model.embedding.normalize);
  request.dimensions = client->dimensions.value_or(limits.hidden_dim);
  absl::Status status = EmbedStatus(CheckEmbedFields(*client, request.dimensions, limits, core.limits()), *client);
  if (!status.ok()) return status;
  if (HasText(*client) && model.tokenizer == nullptr) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; it takes token_ids only");
  }
  return Tokenise(core, client, plan);
}

// The same of a call for scores.
absl::Status PlanScores(const ServingCore& core, const ClientEmbedRequest& client, EmbedPlan* plan) {
  const ServedModel& model = *plan->model;
  if (absl::Status s = CheckReranks(model); !s.ok()) return s;
  if (absl::Status s = EmbedStatus(CheckRerankFields(client, core.limits()), client); !s.ok()) return s;
  engine::EncodeRequest& request = plan->call->request;
  request.classify = true;
  request.dimensions = model.encoder->limits().num_labels;
  plan->rerank = {.sigmoid = model.embedding.sigmoid_scores && !client.rerank->raw_scores,
                  .top_n = client.rerank->top_n};
  return TokenisePairs(core, model, client, &request, &plan->truncated);
}

}  // namespace

absl::StatusOr<EmbedPlan> PlanEmbed(ClientEmbedRequest client, const ServingCore& core, RequestRecord* record) {
  record->num_inputs = static_cast<int32_t>(client.inputs.size());
  const CallContext call{core, client.principal, *client.field_names, record};
  absl::StatusOr<NamedModel> named = ResolveModel(call, client.model, &client.execution);
  if (!named.ok()) return named.status();
  EmbedPlan plan;
  plan.model = std::move(named->model);
  const ServedModel& model = *plan.model;
  plan.call = std::make_unique<engine::EncodeCall>();
  engine::EncodeRequest& request = plan.call->request;
  absl::Status planned =
      client.rerank.has_value() ? PlanScores(core, client, &plan) : PlanVectors(core, &client, &plan);
  if (!planned.ok()) return planned;
  record->prompt_tokens = static_cast<int32_t>(request.tokens.size());
  const absl::StatusOr<engine::ExecutionProfile> profile = ResolveProfile(call, model, client.execution);
  if (!profile.ok()) return profile.status();
  request.profile = *profile;
  auto violation = engine::CheckEncode(request, model.encoder->limits());
  if (violation.has_value() && violation->field == F::kInputToken) {
    violation = UnknownToken(*violation, client, request, model.tokenizer.get());
  }
  if (absl::Status s = EmbedStatus(violation, client); !s.ok()) return s;
  plan.call->vectors.resize(request.lengths.size() * static_cast<size_t>(request.dimensions));
  return plan;
}

}  // namespace dunlin::server
