// SPDX-License-Identifier: Apache-2.0
// Calls written as a Python list of calls with keyword arguments: [f(a=1, b="x"), g()]. The values are literals
// (python_literal.h).
#pragma once

#include <memory>

#include "engine/chat_output/call_reader.h"

namespace dunlin::engine {

std::unique_ptr<CallReader> MakePythonicCalls();

}  // namespace dunlin::engine
