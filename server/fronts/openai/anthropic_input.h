// SPDX-License-Identifier: Apache-2.0
// The bodies of POST /v1/messages and /v1/messages/count_tokens: content blocks become messages of a chat. Pure
// functions, any thread.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "server/fronts/openai/generation_body.h"

namespace dunlin::server {

// The fields of /v1/messages; those of count_tokens are among them.
std::span<const GenerationTable> MessagesFields();

// Parses a body and moves the chat into the request. A final message of the assistant is continued.
// counts_tokens: max_tokens may be missing. Errors: as ReadGenerationBody.
absl::Status ReadMessagesBody(std::string_view text, bool counts_tokens, GenerationBody* body);

}  // namespace dunlin::server
