// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and /detokenize, as vLLM has them. Pure functions, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/request/types.h"
#include "server/serving/record/ignored_names.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dunlin::server {

struct TokenizeBody {
  std::string model;
  std::variant<std::string, text::ChatInput> prompt;
  text::EncodeOptions options;  // of a text; a chat's template writes its special tokens itself
};
// {"model","prompt","add_special_tokens"} or {"model","messages","tools","chat_template_kwargs",...}.
// Errors: INVALID_ARGUMENT, as the generating routes.
// ignored: as JsonValue.
absl::Status ReadTokenize(std::string_view text, IgnoredNames* ignored, TokenizeBody* body);
// {"count","max_model_len","tokens"}
std::string TokenizeResponseBody(std::span<const engine::TokenId> tokens, int32_t max_context_tokens);

struct DetokenizeBody {
  std::string model;
  std::vector<engine::TokenId> tokens;
  bool keep_special_tokens = true;  // vLLM's default
};
// {"model","tokens","skip_special_tokens"}
absl::Status ReadDetokenize(std::string_view text, IgnoredNames* ignored, DetokenizeBody* body);
// {"prompt"}
std::string DetokenizeResponseBody(std::string_view text);

}  // namespace dunlin::server
