// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/repository_check.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace dunlin::simulation {
namespace {

using server::ModelState;
using server::ModelStatus;
using RequestState = ModelRequest::State;

bool HasUse(const std::string& name, const RepositoryView& view) {
  return std::any_of(view.requests->begin(), view.requests->end(),
                     [&name](const ModelRequest& request) { return request.event->model == name && request.uses(); });
}

// Requests of a model that the lifecycle has not answered yet.
int64_t NumWaits(const std::string& name, const RepositoryView& view) {
  return std::count_if(view.requests->begin(), view.requests->end(), [&name](const ModelRequest& request) {
    return request.event->model == name && request.state == RequestState::kWaits && request.num_outcomes == 0 &&
           request.use != 0;
  });
}

absl::Time WaitsUntil(const ModelRequest& request, const KnownModel& model) {
  return std::min(request.event->deadline, request.began + absl::Milliseconds(model.settings.load_wait_ms));
}

// A model that is idle, and so may be unloaded for another's memory.
bool MayGo(const std::string& name, const KnownModel& model, const RepositoryView& view) {
  return model.settings.idle_unload_s > 0 && !model.served.empty() && !HasUse(name, view);
}

}  // namespace

std::string CheckNow(const RepositoryView& view) {
  for (const auto& [name, model] : *view.models) {
    const std::optional<ModelStatus> told = view.lifecycle->Find(name);
    const auto num_waits = static_cast<size_t>(NumWaits(name, view));
    if (told.has_value() && told->waiting != num_waits) return "requests that wait are miscounted";
    if (num_waits > static_cast<size_t>(model.settings.engine.max_queued_requests)) return "too many requests wait";
    const bool goes = model.pending_unloads > 0 || !model.configured;
    const bool served = view.repository->Lease(name) != nullptr;
    if (told.has_value() && told->state == ModelState::kReady && !goes && !served) return "a ready model is not served";
    if (served == model.served.empty() && !goes) return "a model comes or goes without a word";
  }
  for (const ModelRequest& request : *view.requests) {
    if (request.state != RequestState::kWaits || request.num_outcomes > 0) continue;
    if (WaitsUntil(request, view.models->at(request.event->model)) <= view.loading->Now()) {
      return absl::StrCat("event ", request.event->index, " waits for too long");
    }
  }
  return "";
}

std::string CheckRemoval(const std::string& name, const RepositoryView& view) {
  const KnownModel& model = view.models->at(name);
  if (model.pending_unloads > 0 || !model.configured) return "";
  if (model.settings.idle_unload_s == 0) return "a model is unloaded that stays";
  if (HasUse(name, view)) return "a model is unloaded that a request uses";
  if (model.expired) return "";
  if (view.loading->Now() - model.used >= absl::Seconds(model.settings.idle_unload_s)) return "";
  if (view.loading->without_room().empty()) return "a model is unloaded before its time";
  if (view.loading->without_room() == name) return "a model makes room for itself";
  for (const auto& [other, known] : *view.models) {
    if (other == name || other == view.loading->without_room() || !known.configured) continue;
    if (MayGo(other, known, view) && known.used < model.used) return "a model is unloaded that was used more recently";
  }
  return "";
}

std::string CheckCall(const RepositoryEvent& event, const absl::Status& status, const RepositoryView& view) {
  const bool served = view.repository->Lease(event.model) != nullptr;
  if (event.kind == RepositoryEvent::Kind::kUnload) {
    return status.ok() && served ? "a model is served that a call has unloaded" : "";
  }
  if (status.ok()) return served ? "" : "a model is not served that a call has loaded";
  const bool failed = absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status);
  const std::optional<ModelStatus> told = view.lifecycle->Find(event.model);
  if (!failed || !told.has_value()) return "";
  if (told->failure.empty()) return "a load that failed leaves no reason";
  if (served != (told->state == ModelState::kReady)) return "a load that failed changes the served version's state";
  return "";
}

std::string CheckRefusal(const ModelRequest& request, const absl::Status& status, const RepositoryView& view) {
  const std::string& name = request.event->model;
  const KnownModel& model = view.models->at(name);
  const auto faults = view.loading->num_faults.find(name);
  bool happened = false;
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      happened = view.loading->Now() >= WaitsUntil(request, model);
      break;
    case absl::StatusCode::kAborted:
      happened = NumWaits(name, view) >= model.settings.engine.max_queued_requests;
      break;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      happened = faults != view.loading->num_faults.end();
      break;
    case absl::StatusCode::kUnavailable:
      happened = view.stopped || model.pending_unloads > 0 || model.unloaded >= request.began || model.was_dropped;
      break;
    case absl::StatusCode::kNotFound:
      happened = model.was_dropped;
      break;
    default:
      break;
  }
  return happened ? ""
                  : absl::StrCat("event ", request.event->index, " is refused without reason: ", status.ToString());
}

std::string CheckEnd(const RepositoryView& view) {
  size_t bytes = 0;
  for (const auto& [name, model] : *view.models) {
    const std::optional<ModelStatus> told = view.lifecycle->Find(name);
    if (!model.served.empty()) bytes += FakeLoading::BytesOf(model.served);
    if (view.stopped) continue;
    if (!model.served.empty() && !model.configured) return "a model is served that the config has dropped";
    if (!model.served.empty() && model.settings.idle_unload_s > 0) return "an idle model is not unloaded";
    if (!told.has_value()) continue;
    if (told->loading) return "a load never ends";
    const bool good = told->state == ModelState::kReady && told->failure.empty();
    if (good && model.served != model.settings.source.path) return "a version is served that the config has replaced";
    if (!model.was_dropped && told->loads != model.num_loads) return "loads are miscounted";
  }
  return bytes == view.loading->bytes_held() ? "" : "versions are left over that nobody leases";
}

}  // namespace dunlin::simulation
