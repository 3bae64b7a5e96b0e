// SPDX-License-Identifier: Apache-2.0
// A body as a translator reads it, and the chat in what it read.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "server/http_calls/response_facts.h"
#include "server/serving/record/client_request.h"
#include "text/chat_template.h"

namespace dunlin::server {

template <class Translator>
absl::Status Read(std::string_view body, ClientRequest* request, bool strict) {
  ResponseFacts facts;
  facts.strict = strict;
  return Translator(facts).Read(body, request);
}
template <class Translator>
absl::Status Read(std::string_view body, ClientRequest* request) {
  return Read<Translator>(body, request, /*strict=*/false);
}

// REQUIRES: the prompt is a chat.
inline const text::ChatInput& ChatOf(const ClientRequest& request) {
  return std::get<text::ChatInput>(request.prompt);
}

// The messages of the request's chat as templates see them.
inline std::string Messages(const ClientRequest& request) {
  return text::MessagesJson(ChatOf(request).messages);
}

}  // namespace dunlin::server
