// SPDX-License-Identifier: Apache-2.0
// Errors as OpenAI's and Anthropic's clients read them, with the reason, field and limit that every front end reports.
// Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace dunlin::server {

// {"error":{"message","type","param","code",...}}: code is the reason, param the field. What else the status knows
// follows: "limit", "model", "refusals", "config_key", "retry_after_ms". A prompt that is too long (prompt_overflow.h)
// has the code "context_length_exceeded" and a message with "maximum context length is N tokens".
std::string OpenAiError(const absl::Status& status);

// {"message",...}, and OpenAiError's member.
std::string CohereError(const absl::Status& status);

// {"type":"error","error":{"type","message","reason",...}}: further members as above. The message of a prompt that is
// too long begins with "prompt is too long: X tokens > Y maximum".
std::string AnthropicError(const absl::Status& status);

}  // namespace dunlin::server
