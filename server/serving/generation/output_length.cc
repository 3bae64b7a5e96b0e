// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/output_length.h"

#include <algorithm>

#include "engine/request/field_checks.h"

namespace dunlin::server {

using F = engine::RequestField;

std::optional<engine::Violation> CheckOutputLength(const ClientStopping& stopping, int32_t max_context_tokens) {
  if (!stopping.max_tokens.has_value()) return std::nullopt;
  const int32_t most = stopping.clamp_max_tokens ? INT32_MAX : max_context_tokens;
  if (auto v = engine::CheckInt(F::kMaxTokens, *stopping.max_tokens, 0, most)) return v;
  if (*stopping.max_tokens > 0) return std::nullopt;
  return engine::CheckInt(F::kMinTokens, stopping.min_tokens, 0, 0);
}

int32_t MaxTokensBeforePrompt(const ClientStopping& stopping, int32_t max_context_tokens) {
  const int32_t asked = std::max(stopping.max_tokens.value_or(max_context_tokens), 1);
  return stopping.clamp_max_tokens ? std::min(asked, max_context_tokens) : asked;
}

int32_t DefaultMaxTokens(int64_t room, int32_t default_max_tokens, std::optional<int32_t> model_default) {
  const int64_t bound = default_max_tokens > 0 ? default_max_tokens : INT32_MAX;
  const int64_t most = std::min({room, bound, int64_t{model_default.value_or(INT32_MAX)}});
  return static_cast<int32_t>(std::max<int64_t>(most, 1));
}

OutputLength SettleOutputLength(const ClientStopping& stopping, const engine::Request& request,
                                const engine::RequestLimits& limits, int32_t default_max_tokens,
                                std::optional<int32_t> model_default) {
  const int64_t room =
      std::max<int64_t>(engine::OutputRoom(request.prompt.size(), request.profile.precision, limits), 1);
  OutputLength length;
  if (!stopping.max_tokens.has_value()) {
    length.max_tokens = DefaultMaxTokens(room, default_max_tokens, model_default);
    length.reserved = std::min(length.max_tokens, kReservedOutputTokens);
    return length;
  }
  length.max_tokens = request.stopping.max_tokens;
  if (stopping.clamp_max_tokens && std::max(*stopping.max_tokens, 1) > room) {
    length.max_tokens = static_cast<int32_t>(room);
    length.clamped = length.max_tokens;
  }
  length.reserved = length.max_tokens;
  return length;
}

}  // namespace dunlin::server
