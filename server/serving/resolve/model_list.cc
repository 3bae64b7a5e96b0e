// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/model_list.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/adapter_changes.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server {
namespace {

ListedModel InMemory(std::string_view name, const ModelLease& model) {
  ListedModel listed{std::string(name), model, model->any_engine()->max_context_tokens()};
  listed.encoder = model->encoder != nullptr;
  return listed;
}

// A model in memory or an adapter of one, and its profiles.
void AppendWithProfiles(const ServingCore& core, const ListedModel& listed, std::vector<ListedModel>* list) {
  list->push_back(listed);
  if (!core.profile_aliases()) return;
  for (std::string& alias : ProfileAliases(*listed.model, listed.name)) {
    list->push_back(listed);
    list->back().name = std::move(alias);
  }
}

// Whether a model is listed although it is not in memory: its next request loads it.
bool IsLoadedWithRequest(const ModelStatus& status) {
  return status.takes_requests() && status.state != ModelState::kReady;
}

// adapter: null for the model itself.
ListedModel NotInMemory(std::string_view name, const ModelStatus& status, const AdapterStatus* adapter = nullptr) {
  ListedModel listed{std::string(name), nullptr, status.max_context_tokens};
  listed.encoder = adapter == nullptr && status.encoder;
  if (adapter != nullptr) {
    listed.path = adapter->path;
    listed.parent = status.name;
  }
  return listed;
}

}  // namespace

std::vector<ListedModel> ModelListFor(const ServingCore& core, const Principal& caller) {
  std::vector<ListedModel> list;
  const std::vector<ModelStatus> statuses = ModelStatusesFor(core, caller);
  std::map<std::string_view, absl::Time> unloads_at;
  for (const ModelStatus& status : statuses) unloads_at[status.name] = status.unloads_at;
  const auto in_memory = [&unloads_at](std::string_view name, const ModelLease& model) {
    ListedModel listed = InMemory(name, model);
    const auto found = unloads_at.find(model->name);
    if (found != unloads_at.end()) listed.unloads_at = found->second;
    return listed;
  };
  for (const ModelLease& model : ModelsFor(core, caller)) {
    AppendWithProfiles(core, in_memory(model->name, model), &list);
  }
  for (const AdapterOfModel& row : AdaptersFor(core, caller)) {
    const ModelLease model = core.Lease(row.model);
    if (model == nullptr || !row.adapter.loaded) continue;
    ListedModel adapter = in_memory(row.adapter.name, model);
    adapter.path = row.adapter.path;
    adapter.parent = row.model;
    AppendWithProfiles(core, adapter, &list);
  }
  for (const ModelStatus& status : statuses) {
    if (!IsLoadedWithRequest(status)) continue;
    list.push_back(NotInMemory(status.name, status));
    for (const AdapterStatus& adapter : status.adapters) list.push_back(NotInMemory(adapter.name, status, &adapter));
  }
  return list;
}

absl::StatusOr<ListedModel> ListedModelFor(const ServingCore& core, const Principal& caller, std::string_view name) {
  const absl::StatusOr<NamedModel> named = FindFor(core, caller, name);
  if (named.ok()) {
    ListedModel listed = InMemory(name, named->model);
    if (named->adapter.id == 0) return listed;
    const absl::StatusOr<AdapterOfModel> adapter = AdapterFor(core, caller, named->name);
    if (adapter.ok()) listed.path = adapter->adapter.path;
    listed.parent = named->model->name;
    return listed;
  }
  const KnownModel known = FindKnown(core, name);
  for (const ModelStatus& status : ModelStatusesFor(core, caller)) {
    if (status.name != known.model || !IsLoadedWithRequest(status)) continue;
    if (!HasProfileOrNone(known, name)) {
      return InvalidField("model", "has a suffix that is no profile", absl::StrCat(known.name, " alone, or a profile"));
    }
    if (known.name == known.model) return NotInMemory(name, status);
    for (const AdapterStatus& adapter : status.adapters) {
      if (adapter.name == known.name) return NotInMemory(name, status, &adapter);
    }
  }
  const bool loading = core.refusal() == AdmissionRefusal::kLoading;
  return loading ? core.StatusOf(AdmissionRefusal::kLoading) : named.status();
}

}  // namespace dunlin::server
