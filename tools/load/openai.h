// SPDX-License-Identifier: Apache-2.0
// The OpenAI-compatible HTTP protocol, as far as a load generator needs it: the request's JSON and the events of its
// stream. Pure. Source: the API reference of OpenAI, "Completions" and "Chat", with `stream` and `stream_options`;
// `ignore_eos` and `return_token_ids` of vLLM; what Dunlin adds is in docs/openai.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/load/client.h"
#include "tools/load/prompt.h"

namespace dunlin::tools::load {

// A profile's names that are not AUTO become Dunlin's fields. REQUIRES: with options.chat, the prompt has text.
std::string OpenAiBody(const RequestOptions& options, const Prompt& prompt, const MixEntry& profile, uint64_t seed);

struct OpenAiFailure {
  std::string reason;  // the error's `code`, if that is a text; else ""
  std::string message;
};

struct OpenAiEvent {
  bool done = false;          // "[DONE]"
  int32_t num_tokens = 0;     // see http_client.h
  std::string finish_reason;  // "" until the last chunk
  std::optional<OpenAiFailure> error;
  std::optional<int32_t> prompt_tokens;  // of `usage`
  std::optional<int32_t> completion_tokens;
  double engine_ms = -1;  // of Dunlin's timings, first scheduled to finished; -1: none
};

// Errors: INTERNAL for data that is not a JSON object.
absl::StatusOr<OpenAiEvent> ParseOpenAiEvent(std::string_view data);

// What an error response's body says; both texts are "" when that is not JSON with an "error".
OpenAiFailure ParseOpenAiFailure(std::string_view body);

}  // namespace dunlin::tools::load
