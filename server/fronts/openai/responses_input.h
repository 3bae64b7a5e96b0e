// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/responses: items of the input become messages of a chat. Pure functions, any thread.
#pragma once

#include <span>

#include "server/fronts/openai/generation_body.h"

namespace dunlin::server {

// The fields of the route.
std::span<const GenerationTable> ResponsesFields();

// The fields that a response repeats.
std::span<const std::string_view> EchoedResponsesFields();

}  // namespace dunlin::server
