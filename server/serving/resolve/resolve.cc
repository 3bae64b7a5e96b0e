// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/resolve.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/entropy.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/check_request.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxRecordedModelBytes = 128;  // the limit of models[].name: a served name is recorded whole

// Every reason why the profiles that match the choice are not supported, without duplicates.
std::vector<std::string> ReasonsAgainst(const engine::ProfileTable& table, const engine::ExecutionChoice& choice) {
  std::vector<std::string> reasons;
  const bool wants_drafts = choice.max_drafts.value_or(0) > 0 && !choice.allow_fallback;
  if (wants_drafts && !table.speculation_refusal().empty()) return {table.speculation_refusal()};
  if (choice.device.has_value() && *choice.device != table.rows().front().profile.device) return reasons;
  const engine::Precision precision = choice.precision.value_or(table.default_precision());
  for (const engine::ProfileSupport& row : table.rows()) {
    const bool allowed = !choice.attention_backend.has_value() || choice.allow_fallback ||
                         *choice.attention_backend == row.profile.attention_backend;
    if (!allowed || row.profile.precision != precision) continue;
    for (const std::string& reason : row.reasons) {
      const std::string sentence = absl::StrCat(kernels::Name(row.profile.attention_backend), ": ", reason);
      if (std::find(reasons.begin(), reasons.end(), sentence) == reasons.end()) reasons.push_back(sentence);
    }
  }
  return reasons;
}

// The precision that is named; else the first of the model's that the key allows, or its first if there is none.
engine::Precision AllowedPrecision(const ServedModel& model, const KeyRecord& key,
                                   std::optional<engine::Precision> named) {
  if (named.has_value()) return *named;
  const std::vector<engine::Precision>& resident = model.model->precisions();
  const auto allowed = std::find_if(resident.begin(), resident.end(),
                                    [&key](engine::Precision precision) { return key.MayUse(precision); });
  return allowed == resident.end() ? resident.front() : *allowed;
}

// As ProfileTable::Resolve, among the backends that the caller's key allows. REQUIRES: a named one is allowed.
absl::StatusOr<engine::ExecutionProfile> ResolveAllowed(const engine::ProfileTable& table,
                                                        const engine::ExecutionChoice& choice,
                                                        const Principal& caller) {
  const std::optional<engine::AttentionBackend> named = choice.attention_backend;
  const bool replaceable = !named.has_value() || choice.allow_fallback;
  if (caller.anonymous() || caller.key->attention_backends.all() || !replaceable) return table.Resolve(choice);
  engine::ExecutionChoice exact = choice;
  exact.allow_fallback = false;
  if (choice.allow_fallback) exact.max_drafts.reset();
  std::optional<absl::Status> refusal;  // of the first that was tried
  if (named.has_value()) {
    absl::StatusOr<engine::ExecutionProfile> profile = table.Resolve(exact);
    if (profile.ok()) return profile;
    refusal = profile.status();
  }
  for (const engine::AttentionBackend backend : kernels::kAutoOrder) {
    if (!caller.key->MayUse(backend) || backend == named) continue;
    exact.attention_backend = backend;
    absl::StatusOr<engine::ExecutionProfile> profile = table.Resolve(exact);
    if (profile.ok()) return profile;
    if (!refusal.has_value()) refusal = profile.status();
  }
  return *refusal;
}

}  // namespace

absl::Status ResolveRequestId(std::string_view request_id, const FieldNames& names, RequestRecord* record) {
  if (const auto violation = CheckRequestId(request_id)) return InvalidField(*violation, names);
  record->request_id = request_id.empty() ? DrawRequestId() : std::string(request_id);
  return absl::OkStatus();
}

absl::Status CheckModelName(std::string_view name, const FieldNames& names) {
  if (!name.empty()) return absl::OkStatus();
  return InvalidField(engine::Violation::Of(ClientField::kModel, "is empty", "the name of a served model"), names);
}

absl::StatusOr<NamedModel> ResolveModel(const CallContext& call, const std::string& name,
                                        engine::ExecutionChoice* execution) {
  call.record->model = name.substr(0, kMaxRecordedModelBytes);
  if (absl::Status s = CheckModelName(name, call.names); !s.ok()) return s;
  absl::StatusOr<NamedModel> found = FindFor(call.core, call.caller, name);
  if (!found.ok()) return found;
  call.record->model = found->model->name;
  if (found->adapter.id != 0) call.record->adapter = found->name;
  const absl::StatusOr<engine::ExecutionChoice> named = ChoiceNamed(*found, name);
  if (!named.ok()) return named.status();
  if (absl::Status s = MergeChoice(*named, name, call.names, execution); !s.ok()) return s;
  return found;
}

absl::Status CheckGenerates(const ServedModel& model) {
  if (model.engine != nullptr) return absl::OkStatus();
  return MakeError(Reason::kWrongModelKind, absl::StrCat("model is an encoder (", model.model->config().architecture,
                                                         "): it computes embeddings and does not generate text"));
}

absl::Status CheckEmbeds(const ServedModel& model) {
  if (model.encoder != nullptr) return absl::OkStatus();
  return MakeError(Reason::kWrongModelKind, absl::StrCat("model is a decoder (", model.model->config().architecture,
                                                         "): it generates text and does not compute embeddings"));
}

absl::Status CheckReranks(const ServedModel& model) {
  const engine::ModelConfig& config = model.model->config();
  const std::string kind = absl::StrCat("model (", config.architecture, ") does not rerank: ");
  if (model.encoder == nullptr) return MakeError(Reason::kWrongModelKind, absl::StrCat(kind, "it is a decoder"));
  if (config.classifier.num_labels == 0) {
    return MakeError(Reason::kWrongModelKind,
                     absl::StrCat(kind, "it has no head of a sequence classifier (of BERT, RoBERTa or ModernBERT)"));
  }
  if (config.classifier.num_labels != 1) {
    return MakeError(Reason::kWrongModelKind,
                     absl::StrCat(kind, "it has ", config.classifier.num_labels, " labels; limit is 1"));
  }
  if (model.tokenizer == nullptr) return MakeError(Reason::kNoTokenizer, absl::StrCat(kind, "it has no tokenizer"));
  if (model.pair_frame.has_value()) return absl::OkStatus();
  return MakeError(Reason::kNoTokenizer, absl::StrCat(kind, "its tokenizer has no form for a pair of texts"));
}

absl::StatusOr<engine::ExecutionProfile> ResolveProfile(const CallContext& call, const ServedModel& model,
                                                        const engine::ExecutionChoice& asked) {
  engine::ExecutionChoice choice = asked;
  if (!call.caller.anonymous()) choice.precision = AllowedPrecision(model, *call.caller.key, asked.precision);
  if (absl::Status s = CheckKeyExecution(call.core.access(), choice, call.caller, call.names); !s.ok()) return s;
  const engine::ProfileTable& table = *model.profiles;
  absl::StatusOr<engine::ExecutionProfile> profile = ResolveAllowed(table, choice, call.caller);
  if (profile.ok()) {
    call.record->profile = *profile;
    return profile;
  }
  const std::string_view message = engine::StdView(profile.status().message());
  std::vector<std::string> reasons = ReasonsAgainst(table, choice);
  if (reasons.empty()) reasons.emplace_back(message);  // the device itself is not supported
  return ProfileRefused(message, reasons);
}

absl::Status CheckLoadedModel(const CallContext& call, const std::string& name,
                              absl::Status (*check_kind)(const ServedModel&), engine::ExecutionChoice* execution) {
  const absl::StatusOr<NamedModel> named = ResolveModel(call, name, execution);
  if (!named.ok()) return named.status();
  if (absl::Status s = check_kind(*named->model); !s.ok()) return s;
  call.record->finish_reason = "load";
  return ResolveProfile(call, *named->model, *execution).status();
}

}  // namespace dunlin::server
