// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/fake_loading.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::simulation {

using server::ModelMemory;
using server::PlannedModel;

LoadedVersion* VersionOf(const server::ServedModel& model) {
  return static_cast<LoadedVersion*>(model.step_observer.get());
}

size_t FakeLoading::BytesOf(const std::string& path) {
  size_t sum = 0;
  for (const char c : path) sum = 7 * sum + static_cast<size_t>(c);
  return 1 + sum % 4;
}

PlannedModel FakeLoading::Planned(const server::ModelSettings& settings) const {
  PlannedModel planned{settings, nullptr, {}};
  planned.memory.name = settings.name;
  planned.memory.weights = BytesOf(settings.source.path);
  planned.memory.context_tokens = 100;
  return planned;
}

absl::StatusOr<std::vector<PlannedModel>> FakeLoading::PlanStart(const server::Config& config) {
  std::vector<PlannedModel> planned;
  for (const server::ModelSettings& settings : config.models) {
    if (settings.idle_unload_s == 0) planned.push_back(Planned(settings));
  }
  return planned;
}

absl::StatusOr<PlannedModel> FakeLoading::PlanAdded(const server::ModelSettings& settings,
                                                    const std::vector<ModelMemory>& residents, size_t) {
  Sleep(dice_->Between(0, 1) * kRepositoryTick);
  size_t sum = BytesOf(settings.source.path);
  for (const ModelMemory& resident : residents) sum += resident.weights;
  without_room_ = sum > limit_ ? settings.name : "";
  if (sum <= limit_) return Planned(settings);
  ++num_faults[settings.name];
  return absl::ResourceExhaustedError(absl::StrCat("needs ", sum, " of ", limit_));
}

// What ends a load, if anything does.
absl::Status FakeLoading::FaultOf(const PlannedModel& planned, const std::atomic<bool>& stop) {
  for (int32_t ticks = dice_->Between(0, 12); ticks > 0; --ticks) {
    Sleep(kRepositoryTick);
    if (stop) return absl::CancelledError("stopped");
  }
  const bool damaged = broken.contains(planned.settings.source.path);
  const bool throws = may_throw && dice_->OneIn(30);
  if (damaged || throws) ++num_faults[planned.settings.name];
  if (throws) throw std::bad_alloc();
  return damaged ? absl::InvalidArgumentError("its files are damaged") : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<server::ServedModel>> FakeLoading::Load(const PlannedModel& planned,
                                                                       std::shared_ptr<engine::StepObserver>,
                                                                       const std::atomic<bool>& stop) {
  auto model = std::make_unique<server::ServedModel>();
  model->name = planned.settings.name;
  bytes_held_ += planned.memory.weights;
  model->step_observer = std::make_shared<LoadedVersion>(
      planned.settings.source.path, planned.memory.weights, [this](const LoadedVersion& version) {
        bytes_held_ -= version.bytes;
        if (version.num_leases > 0) problem_ = "a version is freed that a request leases: " + version.path;
      });
  if (bytes_held_ > limit_) problem_ = absl::StrCat("models hold ", bytes_held_, " of ", limit_);
  if (const absl::Status fault = FaultOf(planned, stop); !fault.ok()) return fault;
  return model;
}

}  // namespace dunlin::simulation
