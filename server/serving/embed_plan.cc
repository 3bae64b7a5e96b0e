// SPDX-License-Identifier: Apache-2.0
#include "server/serving/embed_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/string_view.h"
#include "engine/encoder/validate_encode.h"
#include "server/serving/check_request.h"
#include "server/serving/encode_text.h"
#include "server/serving/errors.h"
#include "server/serving/resolve.h"

namespace dunlin::server {
namespace {

using engine::TokenId;
using F = engine::RequestField;
using TokenIds = std::vector<TokenId>;

absl::Status ToStatus(const std::optional<engine::Violation>& violation, const ClientEmbedRequest& client) {
  return violation.has_value() ? InvalidField(*violation, *client.field_names) : absl::OkStatus();
}

// *truncate: in: whether the input may be truncated; out: whether it was. Errors: as Tokenizer::Encode.
absl::StatusOr<TokenIds> TokensOf(const ServingCore& core, const engine::Tokenizer* tokenizer, size_t limit,
                                  ClientEmbedInput* input, bool* truncate) {
  if (auto* given = std::get_if<TokenIds>(input)) {
    *truncate = *truncate && given->size() > limit;
    if (*truncate) given->resize(limit);
    return std::move(*given);
  }
  const engine::EncodeOptions options{.max_tokens = limit, .truncate = *truncate};
  return EncodeText(core, *tokenizer, std::get<std::string>(*input), options, truncate);
}

// Appends the tokens of every input to the call; stops at the first input that is too long.
absl::Status Tokenise(const ServingCore& core, ClientEmbedRequest* client, EmbedPlan* plan) {
  const engine::EncodeLimits& limits = plan->model->encoder->limits();
  engine::EncodeRequest& request = plan->call->request;
  for (size_t i = 0; i < client->inputs.size(); ++i) {
    bool truncated = client->truncate;
    const absl::StatusOr<TokenIds> ids =
        TokensOf(core, plan->model->tokenizer.get(), static_cast<size_t>(limits.max_input_tokens), &client->inputs[i],
                 &truncated);
    if (absl::IsOutOfRange(ids.status())) return ToStatus(engine::InputTooLong(i, limits), *client);
    if (!ids.ok()) {
      const std::string problem(engine::StdView(ids.status().message()));
      return InvalidField({F::kInputText, problem, "", {static_cast<int64_t>(i)}, std::nullopt}, *client->field_names);
    }
    const auto num_tokens = static_cast<int64_t>(ids->size());
    if (absl::Status s = ToStatus(engine::CheckInputLength(i, num_tokens, limits), *client); !s.ok()) return s;
    request.tokens.insert(request.tokens.end(), ids->begin(), ids->end());
    request.lengths.push_back(static_cast<int32_t>(num_tokens));
    plan->truncated.push_back(truncated);
  }
  return absl::OkStatus();
}

bool HasText(const ClientEmbedRequest& client) {
  return std::any_of(client.inputs.begin(), client.inputs.end(),
                     [](const ClientEmbedInput& input) { return std::holds_alternative<std::string>(input); });
}

}  // namespace

absl::StatusOr<EmbedPlan> PlanEmbed(ClientEmbedRequest client, const ServingCore& core, RequestRecord* record) {
  record->num_inputs = static_cast<int32_t>(client.inputs.size());
  absl::StatusOr<ModelLease> lease =
      ResolveModel(core, client.principal, client.model, *client.field_names, record, &client.execution);
  if (!lease.ok()) return lease.status();
  EmbedPlan plan;
  plan.model = *std::move(lease);
  const ServedModel& model = *plan.model;
  if (absl::Status s = CheckEmbeds(model); !s.ok()) return s;
  const engine::EncodeLimits& limits = model.encoder->limits();

  plan.call = std::make_unique<engine::EncodeCall>();
  engine::EncodeRequest& request = plan.call->request;
  request.pooling = client.pooling.value_or(model.embedding.pooling);
  request.normalize = client.normalize.value_or(model.embedding.normalize);
  request.dimensions = client.dimensions.value_or(limits.hidden_dim);
  if (absl::Status s = ToStatus(CheckEmbedFields(client, request.dimensions, limits, core.limits()), client); !s.ok()) {
    return s;
  }
  if (HasText(client) && model.tokenizer == nullptr) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; it takes token_ids only");
  }
  if (absl::Status s = Tokenise(core, &client, &plan); !s.ok()) return s;
  record->prompt_tokens = static_cast<int32_t>(request.tokens.size());
  const absl::StatusOr<engine::ExecutionProfile> profile =
      ResolveProfile(core, model, client.execution, client.principal, *client.field_names, record);
  if (!profile.ok()) return profile.status();
  request.profile = *profile;
  if (absl::Status s = ToStatus(engine::CheckEncode(request, limits), client); !s.ok()) return s;
  plan.call->vectors.resize(request.lengths.size() * static_cast<size_t>(request.dimensions));
  return plan;
}

}  // namespace dunlin::server
