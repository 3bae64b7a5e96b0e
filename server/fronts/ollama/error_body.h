// SPDX-License-Identifier: Apache-2.0
// Errors as Ollama's clients read them. Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace dunlin::server::ollama {

// {"error":"message"}, and what the status knows of its reason, field and limit. The message of an unknown model is
// Ollama's: "model 'x' not found".
std::string ErrorBody(const absl::Status& status);

}  // namespace dunlin::server::ollama
