// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_loading.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/models/golden_check.h"
#include "server/models/loader.h"

namespace dunlin::server {

absl::StatusOr<std::vector<PlannedModel>> DeviceModelLoading::PlanStart(const Config& config) {
  return PlanModels(config, devices_, &start_);
}

absl::StatusOr<PlannedModel> DeviceModelLoading::PlanAdded(const ModelSettings& settings,
                                                           const std::vector<ModelMemory>& residents, size_t kv_bytes) {
  return PlanAddedModel(start_, settings, devices_, residents, kv_bytes);
}

absl::StatusOr<std::unique_ptr<ServedModel>> DeviceModelLoading::Load(
    const PlannedModel& planned, std::shared_ptr<engine::StepObserver> step_observer, const std::atomic<bool>& stop) {
  ModelSettings settings = planned.settings;
  settings.text_worker = text_worker_;
  return LoadModel(settings, planned.device, std::move(step_observer), stop, planned.ranks);
}

absl::Status DeviceModelLoading::CheckGolden(const ModelSettings& settings, const ServedModel& model,
                                             const std::atomic<bool>& stop) {
  return server::CheckGolden(settings.golden, model, stop);
}

absl::Time DeviceModelLoading::Now() const {
  return absl::Now();
}

void DeviceModelLoading::Sleep(absl::Duration time) {
  absl::SleepFor(time);
}

}  // namespace dunlin::server
