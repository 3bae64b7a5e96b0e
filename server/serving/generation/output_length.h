// SPDX-License-Identifier: Apache-2.0
// How many tokens an output may have: what the client asks for, or the defaults, within what context and KV pool leave.
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/loop/validate.h"
#include "engine/request/request_field.h"
#include "engine/request/types.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// What the quota of a key reserves of an output for which the client has set no max_tokens. All that the context leaves
// would refuse a key's second call though outputs rarely have so many; what is used beyond is a debt (quota.h).
inline constexpr int32_t kReservedOutputTokens = 512;

// max_tokens and min_tokens as far as they can be checked before the prompt is tokenised; engine/loop/validate.h checks
// the engine's.
std::optional<engine::Violation> CheckOutputLength(const ClientStopping& stopping, int32_t max_context_tokens);

// The engine's max_tokens until the prompt's length is known: it draws one token at least, also of an output that has
// none.
int32_t MaxTokensBeforePrompt(const ClientStopping& stopping, int32_t max_context_tokens);

// The engine's max_tokens of a request that sets none, where context and KV pool leave `room`. default_max_tokens:
// limits.default_max_tokens. model_default: the model's max_new_tokens, if it has one.
int32_t DefaultMaxTokens(int64_t room, int32_t default_max_tokens, std::optional<int32_t> model_default);

struct OutputLength {
  int32_t max_tokens = 1;          // the engine's, >= 1
  std::optional<int32_t> clamped;  // max_tokens, where it is less than the client asked for
  int32_t reserved = 1;            // at most max_tokens: from the quota of the caller's key
};
// Its last arguments as of DefaultMaxTokens.
// REQUIRES: the profile of `request` is resolved, its max_tokens is MaxTokensBeforePrompt.
OutputLength SettleOutputLength(const ClientStopping& stopping, const engine::Request& request,
                                const engine::RequestLimits& limits, int32_t default_max_tokens,
                                std::optional<int32_t> model_default);

}  // namespace dunlin::server
