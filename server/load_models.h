// From config to served models: opens the device, loads weights and tokenizer, plans memory, starts the engines.
// Called once, before READY, on the main thread.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/metrics/server_metrics.h"
#include "server/served_model.h"

namespace dunlin::server {

// The kind of device that a model's "device" key asks for; "auto" is the CPU.
kernels::DeviceKind DeviceKindOf(const ModelSettings& settings);

// Opens it. FAILED_PRECONDITION with the reason when there is none.
absl::StatusOr<std::unique_ptr<kernels::Device>> OpenModelDevice(const ModelSettings& settings,
                                                                 const kernels::DeviceOptions& options);

// Adds one served model to the registry; logs what was loaded and the memory plan. device outlives the model; metrics
// too. Errors carry the model's name.
absl::Status LoadModel(const ModelSettings& settings, kernels::Device* device, ServerMetrics* metrics,
                       ModelRegistry* registry);

}  // namespace dunlin::server
