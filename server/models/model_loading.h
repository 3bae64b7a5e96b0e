// SPDX-License-Identifier: Apache-2.0
// What ModelLifecycle asks of the machine: memory plans, loads and time. A simulation stands in for it
// (tests/simulation). Thread rule: Now from any thread; of the rest one call at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config/config.h"
#include "server/models/devices.h"
#include "server/models/model_plan.h"
#include "server/models/served_model.h"

namespace dunlin::server {

class ModelLoading {
 public:
  virtual ~ModelLoading() = default;
  // PlanModels, before any other call.
  virtual absl::StatusOr<std::vector<PlannedModel>> PlanStart(const Config& config) = 0;
  // PlanAddedModel.
  virtual absl::StatusOr<PlannedModel> PlanAdded(const ModelSettings& settings,
                                                 const std::vector<ModelMemory>& residents, size_t kv_bytes) = 0;
  // A model, ready to be served but for ServedModel::memory and its adapters. May throw where the process has no memory
  // or thread left. CANCELLED soon after stop became true.
  virtual absl::StatusOr<std::unique_ptr<ServedModel>> Load(const PlannedModel& planned,
                                                            std::shared_ptr<engine::StepObserver> step_observer,
                                                            const std::atomic<bool>& stop) = 0;
  // Whether the model says what models[].golden expects.
  virtual absl::Status CheckGolden(const ModelSettings& settings, const ServedModel& model,
                                   const std::atomic<bool>& stop) = 0;
  virtual absl::Time Now() const = 0;
  virtual void Sleep(absl::Duration time) = 0;
};

// Models on this machine's devices.
class DeviceModelLoading final : public ModelLoading {
 public:
  // devices outlives this object. text_worker: ModelSettings::text_worker of every model.
  DeviceModelLoading(Devices* devices, std::string text_worker)
      : devices_(devices), text_worker_(std::move(text_worker)) {}

  absl::StatusOr<std::vector<PlannedModel>> PlanStart(const Config& config) override;
  absl::StatusOr<PlannedModel> PlanAdded(const ModelSettings& settings, const std::vector<ModelMemory>& residents,
                                         size_t kv_bytes) override;
  absl::StatusOr<std::unique_ptr<ServedModel>> Load(const PlannedModel& planned,
                                                    std::shared_ptr<engine::StepObserver> step_observer,
                                                    const std::atomic<bool>& stop) override;
  absl::Status CheckGolden(const ModelSettings& settings, const ServedModel& model,
                           const std::atomic<bool>& stop) override;
  absl::Time Now() const override;
  void Sleep(absl::Duration time) override;

 private:
  Devices* const devices_;
  const std::string text_worker_;
  StartPlan start_;  // const after PlanStart
};

}  // namespace dunlin::server
