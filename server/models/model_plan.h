// SPDX-License-Identifier: Apache-2.0
// The memory plan of the models of a server: of all models of its config at the start, and of each that comes later,
// in what the others leave.
// Thread rule: one call at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/models/devices.h"
#include "server/models/memory_budget.h"
#include "server/models/request_memory.h"

namespace dunlin::server {

// A model that is ready for LoadModel, and what the plan counts for it.
struct PlannedModel {
  ModelSettings settings;  // kv_memory_bytes, kv_backing.memory_left and text_work are set
  kernels::Device* device = nullptr;
  ModelMemory memory;
  std::vector<kernels::Device*> ranks = {};  // Devices::RanksFor
};

// What the plan of the start knew, for models that come later.
struct StartPlan {
  Config config;        // its models are not read
  MemoryBudget budget;  // `models` is empty; `requests` is for num_models
  size_t num_models = 0;
};

// The config's models, but for those that requests load (idle_unload_s). Opens their devices, logs the plan and its
// warnings: it exceeds the limit, for example, as sizes that the config gives may. Sets *start. Errors: as
// Devices::For, WithDefaultPrecisions, EmptyBudget and AddToBudget.
absl::StatusOr<std::vector<PlannedModel>> PlanModels(const Config& config, Devices* devices, StartPlan* start);

// One more model, in what `residents` leave: those that are served, or drain. kv_bytes: what a model with automatic KV
// memory gets if that holds a context, 0 for what is left. Errors: as above, with the model's name;
// RESOURCE_EXHAUSTED, with the plan's figures, also where sizes that the config gives do not fit.
absl::StatusOr<PlannedModel> PlanAddedModel(const StartPlan& start, const ModelSettings& settings, Devices* devices,
                                            const std::vector<ModelMemory>& residents, size_t kv_bytes);

}  // namespace dunlin::server
