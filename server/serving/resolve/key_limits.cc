// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/key_limits.h"

#include <bitset>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "server/access/key_digest.h"
#include "server/access/tenant.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/model_changes.h"

namespace dunlin::server {
namespace {

using C = ClientField;
using F = engine::RequestField;

void Report(const AccessControl& access, const Principal& caller, std::string_view reason) {
  access.Report(AccessRefusal::kPermissionDenied, {caller.name, caller.endpoint, caller.peer, reason});
}

absl::Status Forbid(const AccessControl& access, const Principal& caller, engine::Field field, std::string_view value,
                    const std::string& allowed, const FieldNames& names) {
  Report(access, caller, absl::StrCat(names[field], " not allowed"));
  return KeyForbids(field, value, allowed, names);
}

// "flash, math"
template <typename Row, size_t kRows>
std::string NamesOf(const Row (&table)[kRows], const std::bitset<kRows>& chosen) {
  std::string names;
  for (size_t i = 0; i < kRows; ++i) {
    if (chosen[i]) absl::StrAppend(&names, names.empty() ? "" : ", ", table[i].name);
  }
  return names;
}

}  // namespace

absl::StatusOr<NamedModel> FindFor(const ServingCore& core, const Principal& caller, std::string_view model) {
  NamedModel found = FindNamed(core, model);
  if (found.model == nullptr) return NotServed(core, caller, model);
  if (!caller.MayUse(found.name)) {
    const bool adapter = found.adapter.id != 0;
    Report(core.access(), caller, adapter ? absl::StrCat("adapter ", found.name, " not allowed") : "model not allowed");
    return UnknownModel(model);
  }
  if (const auto choice = ChoiceNamed(found, model); !choice.ok()) return choice.status();
  return found;
}

absl::StatusOr<ModelLease> LeaseFor(const ServingCore& core, const Principal& caller, std::string_view model) {
  absl::StatusOr<NamedModel> found = FindFor(core, caller, model);
  if (!found.ok()) return found.status();
  return std::move(found->model);
}

std::vector<ModelLease> ModelsFor(const ServingCore& core, const Principal& caller) {
  std::vector<ModelLease> models = core.models().List();
  std::erase_if(models, [&caller](const ModelLease& model) { return !caller.MayUse(model->name); });
  return models;
}

absl::Status CheckKeyPriority(const AccessControl& access, const ClientRequest& request) {
  const Principal& caller = request.principal;
  if (caller.anonymous() || request.priority <= caller.key->max_priority) return absl::OkStatus();
  return Forbid(access, caller, F::kPriority, absl::StrCat(request.priority),
                absl::StrCat("at most ", caller.key->max_priority), *request.field_names);
}

absl::Status CheckKeyExecution(const AccessControl& access, const engine::ExecutionChoice& choice,
                               const Principal& caller, const FieldNames& names) {
  if (caller.anonymous()) return absl::OkStatus();
  const KeyRecord& key = *caller.key;
  if (choice.attention_backend.has_value() && !key.MayUse(*choice.attention_backend)) {
    return Forbid(access, caller, C::kAttentionBackend, kernels::Name(*choice.attention_backend),
                  NamesOf(kernels::kAttentionBackendTable, key.attention_backends), names);
  }
  if (choice.precision.has_value() && !key.MayUse(*choice.precision)) {
    return Forbid(access, caller, F::kPrecision, kernels::Name(*choice.precision),
                  NamesOf(kernels::kPrecisionTable, key.precisions), names);
  }
  return absl::OkStatus();
}

absl::Status BeginQuota(const ServingCore& core, const Principal& caller, Admission::Ticket* ticket) {
  if (caller.quota == nullptr) return absl::OkStatus();
  std::variant<Quota::Call, QuotaRefusal> begun = caller.quota->TryBegin(core.now());
  if (const auto* refusal = std::get_if<QuotaRefusal>(&begun)) {
    return QuotaRefused(caller, *refusal, core.limits().retry_after_ms);
  }
  ticket->HoldQuota(std::get<Quota::Call>(std::move(begun)));
  return absl::OkStatus();
}

absl::Status TakeShare(const ServingCore& core, const Principal& caller, Admission::Ticket* ticket) {
  return ticket->TakeTenantShare(TenantOf(caller.name)) ? absl::OkStatus() : TenantShareRefused(core.limits());
}

absl::Status BeginRequest(const ServingCore& core, const Principal& caller, Admission::Ticket* ticket) {
  const absl::Status refused = TakeShare(core, caller, ticket);
  return refused.ok() ? BeginQuota(core, caller, ticket) : refused;
}

absl::Status ReserveTokens(const ServingCore& core, const Principal& caller, int64_t tokens,
                           Admission::Ticket* ticket) {
  const std::optional<QuotaRefusal> refusal = ticket->quota()->Reserve(tokens, core.now());
  if (!refusal.has_value()) return absl::OkStatus();
  return QuotaRefused(caller, *refusal, core.limits().retry_after_ms);
}

std::string CacheSaltOf(const Principal& caller, const std::string& asked) {
  return caller.anonymous() ? asked : SaltOf(caller.name, asked);
}

}  // namespace dunlin::server
