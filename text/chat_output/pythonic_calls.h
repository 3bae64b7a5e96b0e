// SPDX-License-Identifier: Apache-2.0
// Calls written as a Python list of calls with keyword arguments: [f(a=1, b="x"), g()]. The values are literals
// (python_literal.h).
#pragma once

#include <memory>
#include <string_view>

#include "text/chat_output/call_reader.h"

namespace dunlin::text {

std::unique_ptr<CallReader> MakePythonicCalls();
// The same without brackets and with line breaks in place of commas, up to `end`, which outlives the reader.
std::unique_ptr<CallReader> MakePythonicLines(std::string_view end);

// Whether the reader takes `name` as one of a parameter.
bool IsPythonicName(std::string_view name);

}  // namespace dunlin::text
