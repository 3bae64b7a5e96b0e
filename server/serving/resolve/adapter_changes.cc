// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/adapter_changes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/model_changes.h"

namespace dunlin::server {
namespace {

// A lifecycle's error as callers see it.
absl::Status Told(const absl::Status& status, const Limits& limits) {
  const std::string_view message = engine::StdView(status.message());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return status;
    case absl::StatusCode::kNotFound:
      return MakeError(Reason::kUnknownAdapter, message);
    case absl::StatusCode::kAlreadyExists:
      return MakeError(Reason::kAdapterExists, message);
    case absl::StatusCode::kInvalidArgument:
      return MakeError(Reason::kInvalidField, message);
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

// The model that is named, or the only one that takes adapters. Of the models that the caller may use.
absl::StatusOr<std::string> ModelFor(const ServingCore& core, const Principal& caller, const AdapterLoad& load) {
  if (!load.model.empty()) {
    const bool known = caller.MayUse(load.model) && core.lifecycle()->Knows(load.model);
    return known ? absl::StatusOr<std::string>(load.model) : UnknownModel(load.model);
  }
  std::vector<std::string> takers;
  for (const ModelStatus& status : ModelStatusesFor(core, caller)) {
    if (status.max_adapters > 0) takers.push_back(status.name);
  }
  if (takers.size() == 1) return takers.front();
  if (takers.empty()) return MakeError(Reason::kLoadFailed, "no model takes adapters (models[].max_adapters)");
  return InvalidField(load.model_field, "is not given", absl::StrCat("one of ", absl::StrJoin(takers, ", ")));
}

}  // namespace

std::vector<AdapterOfModel> AdaptersFor(const ServingCore& core, const Principal& caller) {
  std::vector<AdapterOfModel> list;
  const auto append = [&](const std::string& model, std::vector<AdapterStatus> adapters) {
    TellAdapters(caller, &adapters);
    for (AdapterStatus& adapter : adapters) list.push_back({model, std::move(adapter)});
  };
  if (core.lifecycle() != nullptr) {
    for (ModelStatus& status : core.lifecycle()->List()) append(status.name, std::move(status.adapters));
  } else {
    for (const ModelLease& model : core.models().List()) append(model->name, LoadedAdapters(*model));
  }
  return list;
}

absl::StatusOr<AdapterOfModel> AdapterFor(const ServingCore& core, const Principal& caller, std::string_view adapter) {
  for (AdapterOfModel& found : AdaptersFor(core, caller)) {
    if (found.adapter.name == adapter) return std::move(found);
  }
  return MakeError(Reason::kUnknownAdapter, "no adapter of that name is loaded");
}

void LoadAdapter(const ServingCore& core, const Principal& caller, const AdapterLoad& load, ModelLifecycle::Done done) {
  if (const absl::Status status = CheckMayChangeModels(core); !status.ok()) return done(status);
  const absl::StatusOr<std::string> model = ModelFor(core, caller, load);
  if (!model.ok()) return done(model.status());
  if (!caller.MayUse(load.name)) {
    return done(MakeError(Reason::kPermissionDenied, "the key does not allow an adapter of that name"));
  }
  core.lifecycle()->LoadAdapter(
      *model, {load.name, load.path}, load.in_place,
      [limits = core.limits(), done = std::move(done)](const absl::Status& status) { done(Told(status, limits)); });
}

void ChangeAdapter(const ServingCore& core, const Principal& caller, const std::string& adapter, AdapterChange change,
                   ModelLifecycle::Done done) {
  if (const absl::Status status = CheckMayChangeModels(core); !status.ok()) return done(status);
  if (const absl::Status known = AdapterFor(core, caller, adapter).status(); !known.ok()) return done(known);
  (core.lifecycle()->*change)(adapter, [limits = core.limits(), done = std::move(done)](const absl::Status& status) {
    done(Told(status, limits));
  });
}

}  // namespace dunlin::server
