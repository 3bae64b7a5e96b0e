// SPDX-License-Identifier: Apache-2.0
// models[].parallel: the ranks of a divided model. Any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "server/config/config.h"

namespace dunlin::server {

// at: "models[0]", of messages. INVALID_ARGUMENT where there are devices, and not one for each rank.
absl::Status ReadParallel(const nlohmann::ordered_json& model, const std::string& at, ModelSettings* settings);

}  // namespace dunlin::server
