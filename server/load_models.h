// From config to served models: loads weights and tokenizer, plans memory, starts the engines.
// Called once, before READY, on the main thread.
#pragma once

#include "absl/status/status.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/metrics/server_metrics.h"
#include "server/served_model.h"

namespace dunlin::server {

// Adds one served model to the registry; logs what was loaded and the memory plan. device outlives the model; metrics
// too. Errors carry the model's name.
absl::Status LoadModel(const ModelSettings& settings, kernels::Device* device, ServerMetrics* metrics,
                       ModelRegistry* registry);

}  // namespace dunlin::server
