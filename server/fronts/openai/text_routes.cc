// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/text_routes.h"

#include <string>
#include <utility>
#include <vector>

#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/error_body.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/tokenize.h"
#include "server/serving/chat/text_requests.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server {
namespace {

using TokenIds = std::vector<engine::TokenId>;

absl::StatusOr<TokenIds> TokensOf(const ServingCore& core, const Principal& caller, const TokenizeBody& body) {
  if (const auto* text = std::get_if<std::string>(&body.prompt)) {
    return Tokenise(core, caller, body.model, *text, body.options, kTextRouteFieldNames);
  }
  absl::StatusOr<ChatPrompt> prompt =
      ApplyChatTemplate(core, caller, body.model, std::get<text::ChatInput>(body.prompt), kChatFieldNames);
  if (!prompt.ok()) return prompt.status();
  return std::move(prompt->token_ids);
}

absl::StatusOr<std::string> TokenizeDocument(const ServingCore& core, const Principal& caller, std::string_view text,
                                             IgnoredNames* ignored) {
  TokenizeBody body;
  if (absl::Status s = ReadTokenize(text, ignored, &body); !s.ok()) return s;
  const absl::StatusOr<TokenIds> tokens = TokensOf(core, caller, body);
  if (!tokens.ok()) return tokens.status();
  const absl::StatusOr<ModelLease> model = LeaseFor(core, caller, body.model);
  if (!model.ok()) return model.status();  // removed in the meantime
  return TokenizeResponseBody(*tokens, (*model)->any_engine()->max_context_tokens());
}

absl::StatusOr<std::string> DetokenizeDocument(const ServingCore& core, const Principal& caller, std::string_view text,
                                               IgnoredNames* ignored) {
  DetokenizeBody body;
  if (absl::Status s = ReadDetokenize(text, ignored, &body); !s.ok()) return s;
  const absl::StatusOr<std::string> prompt =
      Detokenise(core, caller, body.model, body.tokens, body.keep_special_tokens, kTextRouteFieldNames);
  if (!prompt.ok()) return prompt.status();
  return DetokenizeResponseBody(*prompt);
}

absl::StatusOr<std::string> CountTokensDocument(const ServingCore& core, const Principal& caller, std::string_view text,
                                                IgnoredNames* ignored) {
  ClientRequest request;
  const absl::Status read = ReadCountTokens(text, /*strict=*/ignored == nullptr, &request);
  if (ignored != nullptr) *ignored = std::move(request.ignored);
  if (!read.ok()) return read;
  const absl::StatusOr<ChatPrompt> prompt =
      ApplyChatTemplate(core, caller, request.model, std::get<text::ChatInput>(request.prompt), *request.field_names);
  if (!prompt.ok()) return prompt.status();
  return CountTokensBody(prompt->token_ids.size());
}

}  // namespace

const TextWork kTokenizeWork = {&TokenizeDocument, &OpenAiError};
const TextWork kDetokenizeWork = {&DetokenizeDocument, &OpenAiError};
const TextWork kCountTokensWork = {&CountTokensDocument, &AnthropicError};

}  // namespace dunlin::server
