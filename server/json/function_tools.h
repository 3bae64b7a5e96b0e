// SPDX-License-Identifier: Apache-2.0
// The functions among a request's tools. Pure function, any thread.
#pragma once

#include "server/json/json_value.h"

namespace dunlin::server {

inline constexpr char kFunctionAlone[] = "\"function\": the server runs no tools of its own";

// tools: an array of {"type": "function", "function": {"name": ...}}. Returns those with this type as they came; others
// are left out (JsonValue::LeaveOut). untyped: one without a type is a function, too. Errors: no array, an element or
// function that is no object, a type or name that is no text.
Json ReadFunctionTools(const JsonValue& tools, bool untyped);

}  // namespace dunlin::server
