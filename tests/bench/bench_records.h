// `dunlin bench` in a process of its own, and what it prints for scripts, for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"

namespace dunlin::integration {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

CommandResult RunBench(Arguments arguments);

// The records of a bench on a device, whose arguments are among the others, measured for as short as it goes. Expects
// each to have the pinned fields, with values that can be, and a proof that holds.
std::vector<Json> Records(Arguments arguments, const std::string& device = "cpu");

}  // namespace dunlin::integration
