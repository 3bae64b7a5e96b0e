// SPDX-License-Identifier: Apache-2.0
// The OpenAI-compatible HTTP protocol, as far as a load generator needs it: the request's JSON and the events of its
// stream. Pure. Source: the API reference of OpenAI, "Completions" and "Chat", with `stream` and `stream_options`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/load/client.h"
#include "tools/load/prompt.h"

namespace dunlin::tools::load {

std::string OpenAiBody(const RequestOptions& options, const Prompt& prompt, uint64_t seed);

struct OpenAiEvent {
  bool done = false;                     // "[DONE]"
  bool has_text = false;                 // carries non-empty text
  std::string finish_reason;             // "" until the last chunk
  std::optional<int32_t> prompt_tokens;  // of `usage`
  std::optional<int32_t> completion_tokens;
};

// Errors: INTERNAL for data that is not a JSON object, and for an "error" in it, with its message.
absl::StatusOr<OpenAiEvent> ParseOpenAiEvent(std::string_view data);

// The message of an error answer's body; "" when there is none.
std::string OpenAiErrorMessage(std::string_view body);

}  // namespace dunlin::tools::load
