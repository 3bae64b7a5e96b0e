// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/repository_calls.h"

#include <utility>

#include "server/fronts/kserve/infer_request.h"
#include "server/models/model_state.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/adapter_changes.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server::kserve {
namespace {

// What Triton calls them, by ModelState.
constexpr const char* kStates[kNumModelStates] = {"UNAVAILABLE", "LOADING", "READY", "UNLOADING", "UNAVAILABLE"};

// What carries out a call for a name: of an adapter, or of a model.
void Change(const ServingCore& core, const Principal& caller, const std::string& name, ModelChange of_model,
            AdapterChange of_adapter, ModelLifecycle::Done done) {
  const bool adapter = core.lifecycle() != nullptr && !core.lifecycle()->ModelOfAdapter(name).empty();
  if (adapter) return ChangeAdapter(core, caller, name, of_adapter, std::move(done));
  ChangeModel(core, caller, name, of_model, std::move(done));
}

}  // namespace

void DescribeIndex(const ServingCore& core, const Principal& caller, bool only_ready,
                   inference::RepositoryIndexResponse* out) {
  for (const ModelStatus& status : ModelStatusesFor(core, caller)) {
    if (only_ready && !status.takes_requests()) continue;
    const bool on_request = status.takes_requests() && status.state != ModelState::kReady;
    inference::RepositoryIndexResponse::ModelIndex* model = out->add_models();
    model->set_name(status.name);
    model->set_version(kModelVersion);
    model->set_state(kStates[static_cast<size_t>(on_request ? ModelState::kReady : status.state)]);
    if (on_request) {
      model->set_reason("its next request loads it");
    } else {
      model->set_reason(status.state == ModelState::kUnloaded ? "unloaded" : status.failure);
    }
  }
  for (const AdapterOfModel& row : AdaptersFor(core, caller)) {
    if (only_ready && !row.adapter.loaded) continue;
    inference::RepositoryIndexResponse::ModelIndex* model = out->add_models();
    model->set_name(row.adapter.name);
    model->set_version(kModelVersion);
    model->set_state(kStates[static_cast<size_t>(row.adapter.loaded ? ModelState::kReady : ModelState::kUnloaded)]);
    model->set_reason(row.adapter.loaded ? "" : row.adapter.failure);
  }
}

bool IsLoadedByRequest(const ServingCore& core, const Principal& caller, const std::string& model,
                       std::string_view version) {
  if (!core.loads_for_requests() || !IsServedVersion(version)) return false;
  const absl::StatusOr<ModelStatus> status = ModelStatusFor(core, caller, FindKnown(core, model).model);
  return status.ok() && status->takes_requests();
}

void LoadModel(const ServingCore& core, const Principal& caller, const std::string& model, bool has_parameters,
               ModelLifecycle::Done done) {
  if (has_parameters) {
    return done(MakeError(Reason::kNotImplemented,
                          "parameters of a load are not supported; models[] of the config says what a model is"));
  }
  const bool may_change = core.lifecycle() != nullptr && core.access().models_may_change();
  if (!may_change && LeaseFor(core, caller, model).ok()) return done(absl::OkStatus());
  Change(core, caller, model, &ModelLifecycle::Reload, &ModelLifecycle::ReloadAdapter, std::move(done));
}

void UnloadModel(const ServingCore& core, const Principal& caller, const std::string& model,
                 ModelLifecycle::Done done) {
  Change(core, caller, model, &ModelLifecycle::Unload, &ModelLifecycle::UnloadAdapter, std::move(done));
}

}  // namespace dunlin::server::kserve
