// SPDX-License-Identifier: Apache-2.0
// Messages of a chat as JSON, as transformers and OpenAI's API write it, to and from the proto. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "dunlin/v1/generation.pb.h"

namespace dunlin::cli {

// Adds the messages of a JSON list, or one message; fields without a place of their own go to extra_fields_json.
// Errors: INVALID_ARGUMENT, for JSON that is no list of objects, and for an image that is no data: URL. Everything else
// is for the server to check.
absl::Status AddMessages(const std::string& json, v1::Chat* chat);

// One message: {"role", "content", "reasoning_content", "tool_calls": [{"id", "type", "function": {"name",
// "arguments"}}], "tool_call_id", ...}; fields that are not set are left out. AddMessages reads it back.
nlohmann::ordered_json MessageJson(const v1::ChatMessage& message);

}  // namespace dunlin::cli
