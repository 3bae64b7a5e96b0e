// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/check_request.h"
#include "server/serving/entropy.h"
#include "server/serving/errors.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxRecordedModelBytes = 128;  // the limit of models[].name: a served name is recorded whole

// Every reason why the profiles that match the choice are not supported, without duplicates.
std::vector<std::string> ReasonsAgainst(const engine::ProfileTable& table, const engine::ExecutionChoice& choice) {
  std::vector<std::string> reasons;
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

}  // namespace

absl::Status ResolveRequestId(std::string_view request_id, const engine::FieldNames& names, RequestRecord* record) {
  if (const auto violation = CheckRequestId(request_id)) return InvalidField(*violation, names);
  record->request_id = request_id.empty() ? DrawRequestId() : std::string(request_id);
  return absl::OkStatus();
}

absl::StatusOr<ModelLease> ResolveModel(const ServingCore& core, const std::string& name,
                                        const engine::FieldNames& names, RequestRecord* record) {
  record->model = name.substr(0, kMaxRecordedModelBytes);
  if (name.empty()) {
    return InvalidField({engine::RequestField::kModel, "is empty", "the name of a served model", {}, std::nullopt},
                        names);
  }
  ModelLease model = core.Lease(name);
  if (model == nullptr) return UnknownModel(name);
  return model;
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

absl::StatusOr<engine::ExecutionProfile> ResolveProfile(const engine::ProfileTable& table,
                                                        const engine::ExecutionChoice& choice, RequestRecord* record) {
  absl::StatusOr<engine::ExecutionProfile> profile = table.Resolve(choice);
  if (profile.ok()) {
    record->profile = *profile;
    return profile;
  }
  const std::string_view message = engine::StdView(profile.status().message());
  std::vector<std::string> reasons = ReasonsAgainst(table, choice);
  if (reasons.empty()) reasons.emplace_back(message);  // the device itself is not supported
  return ProfileRefused(message, reasons);
}

}  // namespace dunlin::server
