// SPDX-License-Identifier: Apache-2.0
// Loads a configured model: reads weights and tokenizer, plans memory, warms up, starts the engine.
// Thread rule: one load at a time.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/models/served_model.h"

namespace dunlin::server {

// Logs what was loaded and its buffers. device outlives the model; the model keeps step_observer, which may be null.
// Errors contain the model's name; CANCELLED soon after stop became true.
// ranks: of a model that is divided, the devices of its ranks (Devices::RanksFor); empty: `device` alone.
// REQUIRES: a decoder's settings have their kv_memory_bytes (PlanModels).
absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel(const ModelSettings& settings, kernels::Device* device,
                                                       std::shared_ptr<engine::StepObserver> step_observer,
                                                       const std::atomic<bool>& stop,
                                                       const std::vector<kernels::Device*>& ranks = {});

}  // namespace dunlin::server
