// SPDX-License-Identifier: Apache-2.0
// The names in an Execution, as every command prints them: "flash", "bf16", "cpu".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dunlin/v1/execution.pb.h"

namespace dunlin::cli {

std::string BackendWord(v1::AttentionBackend backend);
std::string PrecisionWord(v1::Precision precision);
std::string DeviceWord(v1::Device device);

// {"device", "attention_backend", "precision", "recipe", "kv_dtype"}
nlohmann::ordered_json ExecutionJson(const v1::Execution& execution);

}  // namespace dunlin::cli
