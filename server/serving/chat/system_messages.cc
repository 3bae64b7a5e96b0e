// SPDX-License-Identifier: Apache-2.0
#include "server/serving/chat/system_messages.h"

#include <iterator>
#include <string>
#include <utility>

namespace dunlin::server {
namespace {

using text::ChatMessage;

constexpr char kBetween[] = "\n\n";

void ContentToPart(ChatMessage* message) {
  if (!message->content.has_value()) return;
  message->parts.push_back({"text", *std::exchange(message->content, std::nullopt)});
}

// Adds a message's content behind that of another.
void AddContent(ChatMessage from, ChatMessage* to) {
  if (to->content.has_value() && from.content.has_value()) {
    *to->content += kBetween + *from.content;
    return;
  }
  ContentToPart(to);
  ContentToPart(&from);
  if (!to->parts.empty() && !from.parts.empty()) to->parts.back().text += kBetween;
  to->parts.insert(to->parts.end(), std::make_move_iterator(from.parts.begin()),
                   std::make_move_iterator(from.parts.end()));
}

}  // namespace

std::vector<ChatMessage> WithSystemMoved(const std::vector<ChatMessage>& messages, SystemPlaces places) {
  if (places == SystemPlaces::kAnywhere) return messages;
  std::vector<ChatMessage> moved;
  bool last_has_system = false;  // the last message is the user's, and ends with a text of the system
  for (const ChatMessage& message : messages) {
    const bool is_system = message.role == "system";
    const bool takes_it = places == SystemPlaces::kFirst && (moved.empty() || moved.back().role == "system");
    const bool joins_user =
        !moved.empty() && moved.back().role == "user" && (is_system || (last_has_system && message.role == "user"));
    if (joins_user || (is_system && takes_it && !moved.empty())) {
      AddContent(message, &moved.back());
      last_has_system = joins_user && is_system;
      continue;
    }
    moved.push_back(message);
    last_has_system = is_system && !takes_it;
    if (last_has_system) moved.back().role = "user";
  }
  return moved;
}

}  // namespace dunlin::server
