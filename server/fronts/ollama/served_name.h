// SPDX-License-Identifier: Apache-2.0
// Ollama's names of models end in a tag, which clients add where there is none. Any thread.
#pragma once

#include <string>

#include "server/serving/core/serving_core.h"

namespace dunlin::server::ollama {

// The name under which the server knows what a client calls `name`: without ":latest", unless a model or an adapter
// has that in its own name.
std::string ServedName(const ServingCore& core, const std::string& name);

}  // namespace dunlin::server::ollama
