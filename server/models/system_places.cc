// SPDX-License-Identifier: Apache-2.0
#include "server/models/system_places.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace dunlin::server {
namespace {

struct Message {
  const char* role;
  const char* text;
};

// Whether the template renders the chat, and the text of every system message with it.
bool Takes(std::initializer_list<Message> messages, const text::ChatTemplate& chat_template,
           const text::Tokenizer& tokenizer) {
  text::ChatInput chat;
  for (const Message& message : messages) {
    text::ChatMessage& added = chat.messages.emplace_back();
    added.role = message.role;
    added.content = message.text;
  }
  const absl::StatusOr<text::RenderedChat> rendered = chat_template.Render(tokenizer, chat, {});
  if (!rendered.ok()) return false;
  return std::all_of(messages.begin(), messages.end(), [&rendered](const Message& message) {
    return std::string(message.role) != "system" || rendered->text.find(message.text) != std::string::npos;
  });
}

}  // namespace

SystemPlaces SystemPlacesOf(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer) {
  const bool anywhere = Takes({{"system", "rule one"},
                               {"system", "rule two"},
                               {"user", "question"},
                               {"assistant", "answer"},
                               {"system", "rule three"},
                               {"user", "question"}},
                              chat_template, tokenizer);
  if (anywhere) return SystemPlaces::kAnywhere;
  const bool first = Takes({{"system", "rule one"}, {"user", "question"}}, chat_template, tokenizer);
  return first ? SystemPlaces::kFirst : SystemPlaces::kNowhere;
}

}  // namespace dunlin::server
