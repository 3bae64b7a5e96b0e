// SPDX-License-Identifier: Apache-2.0
// Validates the fields of a client's request that the engine never sees; engine/loop/validate.h validates all others.
// Each function returns the first violation, or none. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/encoder/validate_encode.h"
#include "engine/request/request_field.h"
#include "server/access/limits.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxBadWordTexts = 64;
inline constexpr size_t kMaxBadWordBytes = 256;

// Printable ASCII, at most kMaxRequestIdBytes.
std::optional<engine::Violation> CheckRequestId(std::string_view request_id);
// n, stop strings, bad words as texts, echo and logprobs, as far as the client has set them.
std::optional<engine::Violation> CheckGenerateFields(const ClientRequest& request);
// That a prompt is given, and its size in bytes if it is text. The engine checks token ids and lengths in tokens.
std::optional<engine::Violation> CheckPromptForm(const ClientPrompt& prompt);
// The number and kind of the inputs, the dimensions, and that the vectors fit into one response. `dimensions` is the
// resolved value.
std::optional<engine::Violation> CheckEmbedFields(const ClientEmbedRequest& request, int32_t dimensions,
                                                  const engine::EncodeLimits& encoder, const Limits& limits);
// The number of the documents, the sizes of query and documents in bytes, and top_n. REQUIRES: request.rerank.
std::optional<engine::Violation> CheckRerankFields(const ClientEmbedRequest& request, const Limits& limits);

}  // namespace dunlin::server
