// SPDX-License-Identifier: Apache-2.0
// Runs `dunlin bench` as a process and reads its JSON lines, for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"

namespace dunlin::integration {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

CommandResult RunBench(Arguments arguments);

// The records of a bench with these arguments, measured as briefly as possible. Expects each to have the pinned fields
// with plausible values, and an error within its bound.
std::vector<Json> Records(Arguments arguments, const std::string& device = "cpu");

}  // namespace dunlin::integration
