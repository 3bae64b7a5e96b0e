// SPDX-License-Identifier: Apache-2.0
// The bounds of those fields of a client's request that the engine never sees; engine/validate.h has all others. Each
// function returns the first violation, none when all is well. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/encoder/validate_encode.h"
#include "engine/request_field.h"
#include "server/serving/client_request.h"
#include "server/serving/limits.h"

namespace dunlin::server {

inline constexpr size_t kMaxRequestIdBytes = 128;

// Printable ASCII, at most kMaxRequestIdBytes.
std::optional<engine::Violation> CheckRequestId(std::string_view request_id);
// n, stop strings and the log-probabilities that the client has named.
std::optional<engine::Violation> CheckGenerateFields(const ClientRequest& request);
// Text bytes; that there is a prompt at all. Token ids and lengths are the engine's to check.
std::optional<engine::Violation> CheckPromptForm(const ClientPrompt& prompt);
// The inputs' number and form, the dimensions, and that the vectors fit one response. `dimensions`: as resolved.
std::optional<engine::Violation> CheckEmbedFields(const ClientEmbedRequest& request, int32_t dimensions,
                                                  const engine::EncodeLimits& encoder, const Limits& limits);

}  // namespace dunlin::server
