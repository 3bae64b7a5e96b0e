#include "server/grpc/embed_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dunlin/v1/embedding.pb.h"
#include "engine/base/string_view.h"
#include "server/convert/embed_request.h"
#include "server/convert/errors.h"
#include "server/grpc/call_metadata.h"
#include "server/grpc/generate_plan.h"
#include "server/grpc/model_kind.h"
#include "server/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

using engine::TokenId;

// Cuts `ids` = what begins a text, the text, what ends a text, to `limit` ids: the text loses its end. Where not even
// the ends fit nothing is cut, and the input is refused as too long.
absl::Status CutText(const engine::Tokenizer& tokenizer, const std::string& text, size_t limit,
                     std::vector<TokenId>* ids) {
  const auto bare = tokenizer.Encode(text, {.add_special_tokens = false, .parse_special = false});
  if (!bare.ok()) return bare.status();
  const size_t num_around = ids->size() - bare->size();
  if (limit < num_around) return absl::OkStatus();
  const auto begin = std::search(ids->begin(), ids->end(), bare->begin(), bare->end());
  ids->erase(begin + static_cast<std::ptrdiff_t>(limit - num_around),
             begin + static_cast<std::ptrdiff_t>(bare->size()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> TokensOf(const v1::EmbedInput& input, const engine::Tokenizer* tokenizer,
                                              size_t limit, bool* truncate) {
  if (input.has_token_ids()) {
    const auto& ids = input.token_ids().ids();
    *truncate = *truncate && static_cast<size_t>(ids.size()) > limit;
    return std::vector<TokenId>(ids.begin(), *truncate ? ids.begin() + static_cast<int>(limit) : ids.end());
  }
  absl::StatusOr<std::vector<TokenId>> ids = tokenizer->Encode(input.text());
  if (!ids.ok()) return ids;
  *truncate = *truncate && ids->size() > limit;
  if (!*truncate) return ids;
  if (absl::Status status = CutText(*tokenizer, input.text(), limit, &*ids); !status.ok()) return status;
  return ids;
}

// Appends the tokens of every input to the call; what is too long stops before the rest is tokenised.
absl::Status Tokenise(const v1::EmbedRequest& message, int32_t retry_after_ms, EmbedPlan* plan) {
  const engine::EncodeLimits& limits = plan->model->encoder->limits();
  engine::EncodeRequest& request = plan->call->request;
  for (int i = 0; i < message.inputs_size(); ++i) {
    bool truncated = message.truncate();
    const auto ids = TokensOf(message.inputs(i), plan->model->tokenizer.get(),
                              static_cast<size_t>(limits.max_input_tokens), &truncated);
    if (!ids.ok())
      return InvalidField(absl::StrCat("inputs[", i, "].text"), engine::StdView(ids.status().message()), "");
    absl::Status status = engine::CheckInputLength(static_cast<size_t>(i), static_cast<int64_t>(ids->size()), limits);
    if (!status.ok()) return FromEngine(status, retry_after_ms);
    request.tokens.insert(request.tokens.end(), ids->begin(), ids->end());
    request.lengths.push_back(static_cast<int32_t>(ids->size()));
    plan->truncated.push_back(truncated);
  }
  return absl::OkStatus();
}

EncoderFacts FactsOfEncoder(const ServedModel& model) {
  return {.hidden_dim = model.encoder->limits().hidden_dim,
          .has_tokenizer = model.tokenizer != nullptr,
          .settings = model.embedding};
}

absl::Status FillCall(const v1::EmbedRequest& message, CheckedEmbed checked, const Edge& edge, EmbedPlan* plan,
                      RequestRecord* record) {
  plan->call = std::make_unique<engine::EncodeCall>();
  engine::EncodeRequest& request = plan->call->request;
  request = std::move(checked.engine);
  if (absl::Status s = Tokenise(message, edge.limits.retry_after_ms, plan); !s.ok()) return s;
  record->prompt_tokens = static_cast<int32_t>(request.tokens.size());
  const engine::ProfileTable& profiles = *plan->model->profiles;
  const absl::StatusOr<engine::ExecutionProfile> profile = profiles.Resolve(checked.choice);
  if (!profile.ok()) return RefuseProfile(profiles, checked.choice, profile.status());
  request.profile = *profile;
  record->profile = *profile;
  if (absl::Status s = plan->model->encoder->Validate(request); !s.ok()) {
    return FromEngine(s, edge.limits.retry_after_ms);
  }
  plan->call->vectors.resize(request.lengths.size() * static_cast<size_t>(request.dimensions));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EmbedPlan> PlanEmbed(const grpc::ByteBuffer& wire, const grpc::CallbackServerContext& context,
                                    const Edge& edge, RequestRecord* record) {
  v1::EmbedRequest message;
  if (absl::Status s = ParseWire(wire, &message); !s.ok()) return s;
  absl::StatusOr<std::string> request_id = ChooseRequestId(context, message.request_id());
  if (!request_id.ok()) return request_id.status();
  record->request_id = *std::move(request_id);
  EmbedPlan plan;
  const absl::StatusOr<const ServedModel*> model = FindModel(message.model(), edge, record);
  if (!model.ok()) return model.status();
  plan.model = *model;
  if (absl::Status s = CheckEmbeds(*plan.model); !s.ok()) return s;
  record->num_inputs = message.inputs_size();
  absl::StatusOr<CheckedEmbed> checked = CheckEmbedRequest(message, FactsOfEncoder(*plan.model), edge.limits);
  if (!checked.ok()) return checked.status();
  if (absl::Status s = FillCall(message, *std::move(checked), edge, &plan, record); !s.ok()) return s;
  return plan;
}

}  // namespace dunlin::server
