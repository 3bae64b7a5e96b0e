// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/profile_alias.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "server/models/model_lifecycle.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using C = ClientField;
using F = engine::RequestField;

constexpr char kSuffixMark = '@';
constexpr std::string_view kTag = ":latest";

template <typename Row, size_t kRows>
const Row* FindNamed(const Row (&table)[kRows], std::string_view name) {
  for (const Row& row : table) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// "flash-fp8", "flash" or "fp8"; empty for anything else.
std::optional<engine::ExecutionChoice> ParseSuffix(std::string_view suffix) {
  engine::ExecutionChoice choice;
  const size_t dash = suffix.find('-');
  const std::string_view first = suffix.substr(0, dash);
  std::string_view precision = first;
  if (const auto* backend = FindNamed(kernels::kAttentionBackendTable, first)) {
    choice.attention_backend = backend->backend;
    if (dash == std::string_view::npos) return choice;
    precision = suffix.substr(dash + 1);
  } else if (dash != std::string_view::npos) {
    return std::nullopt;
  }
  const auto* row = FindNamed(kernels::kPrecisionTable, precision);
  if (row == nullptr) return std::nullopt;
  choice.precision = row->precision;
  return choice;
}

absl::Status Conflict(engine::Field field, std::string_view asked, std::string_view named, std::string_view name,
                      const FieldNames& names) {
  return InvalidField(
      names[field],
      absl::StrCat("is ", std::string(asked), ", but ", names[C::kModel], " is ", std::string(name.substr(0, 256))),
      std::string(named));
}

std::string_view WithoutTag(std::string_view name) {
  return name.ends_with(kTag) ? name.substr(0, name.size() - kTag.size()) : name;
}

// What a name may stand for, in the order in which it is looked for: itself, itself without its tag, that without its
// profile.
std::array<std::string_view, 3> OwnNamesOf(std::string_view name) {
  const std::string_view untagged = WithoutTag(name);
  return {name, untagged, untagged.substr(0, untagged.rfind(kSuffixMark))};
}

// Without a suffix.
NamedModel FindExactly(const ServingCore& core, std::string_view name) {
  if (ModelLease model = core.Lease(name)) return {std::move(model), {}, std::string(name)};
  for (ModelLease& model : core.models().List()) {
    if (model->adapters == nullptr) continue;
    engine::AdapterLease adapter = model->adapters->Lookup(name);
    if (adapter.id != 0) return {std::move(model), std::move(adapter), std::string(name)};
  }
  return {};
}

}  // namespace

NamedModel FindNamed(const ServingCore& core, std::string_view name) {
  for (const std::string_view own : OwnNamesOf(name)) {
    if (NamedModel found = FindExactly(core, own); found.model != nullptr) return found;
  }
  return {};
}

KnownModel FindKnown(const ServingCore& core, std::string_view name) {
  KnownModel unknown{std::string(name), std::string(name)};
  if (core.lifecycle() == nullptr) return unknown;
  for (const std::string_view own : OwnNamesOf(name)) {
    if (core.lifecycle()->Knows(own)) return {std::string(own), std::string(own)};
    std::string model = core.lifecycle()->ModelOfAdapter(own);
    if (!model.empty()) return {std::move(model), std::string(own)};
  }
  return unknown;
}

bool HasProfileOrNone(const KnownModel& known, std::string_view name) {
  const std::string_view untagged = WithoutTag(name);
  if (name == known.name || untagged == known.name) return true;
  return untagged.size() > known.name.size() && ParseSuffix(untagged.substr(known.name.size() + 1)).has_value();
}

absl::StatusOr<engine::ExecutionChoice> ChoiceNamed(const NamedModel& model, std::string_view name) {
  const std::string_view untagged = WithoutTag(name);
  if (name == model.name || untagged == model.name) return engine::ExecutionChoice();
  const std::string_view suffix = untagged.substr(model.name.size() + 1);
  if (const std::optional<engine::ExecutionChoice> choice = ParseSuffix(suffix)) return *choice;
  const std::vector<std::string> aliases = ProfileAliases(*model.model, model.name);
  return InvalidField(
      "model", "has a suffix that is no profile",
      absl::StrCat(model.name, " alone, or one of ", absl::StrJoin(aliases, ", "), ", or with one of the two parts"));
}

absl::Status MergeChoice(const engine::ExecutionChoice& named, std::string_view name, const FieldNames& names,
                         engine::ExecutionChoice* choice) {
  if (named.attention_backend.has_value()) {
    if (choice->attention_backend.value_or(*named.attention_backend) != *named.attention_backend) {
      return Conflict(C::kAttentionBackend, kernels::Name(*choice->attention_backend),
                      kernels::Name(*named.attention_backend), name, names);
    }
    choice->attention_backend = named.attention_backend;
  }
  if (named.precision.has_value()) {
    if (choice->precision.value_or(*named.precision) != *named.precision) {
      return Conflict(F::kPrecision, kernels::Name(*choice->precision), kernels::Name(*named.precision), name, names);
    }
    choice->precision = named.precision;
  }
  return absl::OkStatus();
}

std::vector<std::string> ProfileAliases(const ServedModel& model, std::string_view name) {
  std::vector<std::string> aliases;
  for (const engine::ProfileSupport& row : model.profiles->rows()) {
    if (!row.supported) continue;
    aliases.push_back(absl::StrCat(engine::AbslView(name), "@", kernels::Name(row.profile.attention_backend), "-",
                                   kernels::Name(row.profile.precision)));
  }
  return aliases;
}

}  // namespace dunlin::server
