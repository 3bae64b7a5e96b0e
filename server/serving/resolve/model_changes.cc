// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/model_changes.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server {
namespace {

constexpr char kLoadedAtStart[] =
    "models are loaded when the server starts; change models[] of its config and restart it";

bool Administers(const Principal& caller) {
  return caller.anonymous() || caller.key->Has(Permission::kAdmin);
}

ModelStatus ToldTo(const Principal& caller, ModelStatus status) {
  if (!status.failure.empty() && !HearsPaths(caller)) status.failure = kFailureInLog;
  TellAdapters(caller, &status.adapters);
  return status;
}

const char* Told(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return "is loading";
    case ModelState::kFailed:
      return "could not be loaded";
    case ModelState::kReady:
    case ModelState::kUnloaded:
    case ModelState::kUnloading:
      break;
  }
  return "is unloaded";
}

// A lifecycle's error as callers see it.
absl::Status Told(const absl::Status& status, const std::string& model, const Limits& limits) {
  const std::string_view message = engine::StdView(status.message());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return status;
    case absl::StatusCode::kNotFound:
      return UnknownModel(model);
    case absl::StatusCode::kResourceExhausted:
      return MakeError(Reason::kModelMemory, message);
    case absl::StatusCode::kAborted:
      return Overloaded(Reason::kTooManyRequests, message, "", limits.retry_after_ms);
    case absl::StatusCode::kUnavailable:
      return MakeError(Reason::kShutdown, message);
    default:
      return MakeError(Reason::kLoadFailed, message);
  }
}

}  // namespace

bool HearsPaths(const Principal& caller) {
  return Administers(caller);
}

void TellAdapters(const Principal& caller, std::vector<AdapterStatus>* adapters) {
  std::erase_if(*adapters, [&caller](const AdapterStatus& adapter) { return !caller.MayUse(adapter.name); });
  if (HearsPaths(caller)) return;
  for (AdapterStatus& adapter : *adapters) {
    adapter.path.clear();
    if (!adapter.failure.empty()) adapter.failure = kFailureInLog;
  }
}

absl::Status NotServed(const ServingCore& core, const Principal& caller, std::string_view model) {
  const KnownModel known = FindKnown(core, model);
  if (core.lifecycle() == nullptr || !caller.MayUse(known.name)) return UnknownModel(model);
  const std::optional<ModelStatus> status = core.lifecycle()->Find(known.model);
  if (!status.has_value()) return UnknownModel(model);
  const bool only_adapter = status->state == ModelState::kReady && known.name != known.model;
  const char* state = only_adapter ? "could not be loaded" : Told(status->state);
  return ModelNotServed(known.name, state, core.limits().retry_after_ms);
}

std::vector<ModelStatus> ModelStatusesFor(const ServingCore& core, const Principal& caller) {
  std::vector<ModelStatus> list;
  if (core.lifecycle() == nullptr) {
    for (const ModelLease& model : ModelsFor(core, caller)) {
      ModelStatus& status = list.emplace_back();
      status.name = model->name;
      status.state = ModelState::kReady;
      status.loads = 1;
      if (model->adapters != nullptr) status.max_adapters = model->adapters->limits().max_adapters;
      status.adapters = LoadedAdapters(*model);
      TellAdapters(caller, &status.adapters);
    }
    return list;
  }
  for (ModelStatus& status : core.lifecycle()->List()) {
    if (caller.MayUse(status.name)) list.push_back(ToldTo(caller, std::move(status)));
  }
  return list;
}

absl::StatusOr<ModelStatus> ModelStatusFor(const ServingCore& core, const Principal& caller, std::string_view model) {
  for (ModelStatus& status : ModelStatusesFor(core, caller)) {
    if (status.name == model) return std::move(status);
  }
  return UnknownModel(model);
}

absl::Status CheckMayChangeModels(const ServingCore& core) {
  if (core.lifecycle() == nullptr) return MakeError(Reason::kNotImplemented, kLoadedAtStart);
  if (core.access().models_may_change()) return absl::OkStatus();
  return MakeError(Reason::kPermissionDenied,
                   "without keys, models are loaded and unloaded by the config alone: change models[] and send SIGHUP, "
                   "or set access.keys_file or access.admin_without_keys");
}

void ChangeModel(const ServingCore& core, const Principal& caller, const std::string& model, ModelChange change,
                 ModelLifecycle::Done done) {
  if (const absl::Status status = CheckMayChangeModels(core); !status.ok()) return done(status);
  if (!caller.MayUse(model)) return done(UnknownModel(model));
  (core.lifecycle()->*change)(model, [model, limits = core.limits(), done = std::move(done)](
                                         const absl::Status& status) { done(Told(status, model, limits)); });
}

absl::StatusOr<FreedModel> FreeModel(const ServingCore& core, const Principal& caller, std::string_view model) {
  ModelLifecycle* const lifecycle = core.lifecycle();
  if (lifecycle == nullptr) {
    const absl::StatusOr<NamedModel> named = FindFor(core, caller, model);
    if (!named.ok()) return named.status();
    return FreedModel{named->model->name};
  }
  const KnownModel known = FindKnown(core, model);
  const absl::StatusOr<ModelStatus> status = ModelStatusFor(core, caller, known.model);
  if (!status.ok() || !caller.MayUse(known.name)) return UnknownModel(model);
  if (status->state == ModelState::kReady) {
    const bool may = Administers(caller) && known.name == known.model;
    return FreedModel{known.model, may && lifecycle->EndIdleTime(known.model)};
  }
  return FreedModel{known.model, status->state != ModelState::kLoading};
}

}  // namespace dunlin::server
