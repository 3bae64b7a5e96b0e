// SPDX-License-Identifier: Apache-2.0
// The memory plan that `dunlin inspect` shows: what `dunlin serve` would plan for the model on this machine's CPU.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/load/model_source.h"
#include "kernels/api/device.h"

namespace dunlin::server {

// precisions: "bf16,fp8"; empty: the config's default. A plan that does not fit is an object whose only field `refusal`
// is the reason. INVALID_ARGUMENT: unknown precisions.
absl::StatusOr<nlohmann::ordered_json> MemoryJson(const engine::ModelSource& source, const std::string& precisions,
                                                  kernels::Device* cpu);

}  // namespace dunlin::server
