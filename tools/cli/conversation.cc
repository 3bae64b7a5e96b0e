// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/conversation.h"

#include <algorithm>
#include <utility>

#include "tools/cli/chat_messages.h"
#include "tools/cli/image_parts.h"

namespace dunlin::cli {
namespace {

using Json = nlohmann::ordered_json;

v1::ChatMessage TextMessage(const char* role, std::string text) {
  v1::ChatMessage message;
  message.set_role(role);
  message.set_content(std::move(text));
  return message;
}

bool IsComplete(const v1::ToolCall& call) {
  const std::string& arguments = call.arguments_json();
  return arguments.empty() || Json::parse(arguments, nullptr, /*allow_exceptions=*/false).is_object();
}

}  // namespace

void Conversation::Load(const v1::Chat& chat) {
  for (const v1::ChatMessage& message : chat.messages()) {
    if (entries_.empty() && message.role() == "system" && message.has_content()) {
      system_ = message.content();
    } else {
      entries_.push_back({message});
    }
  }
}

bool Conversation::AddUser(std::string text, std::vector<v1::ContentPart> images) {
  const bool replaces = LastIs("user");
  if (replaces) entries_.pop_back();
  entries_.push_back({UserMessage(std::move(images), std::move(text))});
  return replaces;
}

void Conversation::AddAnswer(const CompletionOutput& output, bool cut) {
  v1::ChatMessage message;
  message.set_role("assistant");
  for (const v1::ToolCall& call : output.tool_calls) {
    if (!cut && IsComplete(call)) *message.add_tool_calls() = call;
  }
  message.set_reasoning_content(output.reasoning);
  if (!output.text.empty() || message.tool_calls().empty()) message.set_content(output.text);
  const bool nothing = output.text.empty() && output.reasoning.empty() && message.tool_calls().empty();
  if (!cut || !nothing) entries_.push_back({std::move(message), cut});
}

const v1::ToolCall* Conversation::PendingCall() const {
  size_t num_results = 0;
  while (num_results < entries_.size() && entries_[entries_.size() - 1 - num_results].message.role() == "tool") {
    ++num_results;
  }
  if (num_results == entries_.size()) return nullptr;
  const v1::ChatMessage& last = entries_[entries_.size() - 1 - num_results].message;
  return num_results < static_cast<size_t>(last.tool_calls_size()) ? &last.tool_calls(static_cast<int>(num_results))
                                                                   : nullptr;
}

void Conversation::AddToolResult(std::string text) {
  const v1::ToolCall& call = *PendingCall();
  v1::ChatMessage message = TextMessage("tool", std::move(text));
  message.set_tool_call_id(call.id());
  message.set_name(call.name());
  entries_.push_back({std::move(message)});
}

bool Conversation::NeedsAnswer() const {
  return LastIs("user") || (LastIs("tool") && PendingCall() == nullptr);
}

bool Conversation::DropAnswer() {
  if (NeedsAnswer()) return true;
  while (LastIs("tool")) entries_.pop_back();
  if (LastIs("assistant")) entries_.pop_back();
  return NeedsAnswer();
}

bool Conversation::Undo() {
  const auto user = std::find_if(entries_.rbegin(), entries_.rend(),
                                 [](const Entry& entry) { return entry.message.role() == "user"; });
  if (user == entries_.rend()) return false;
  entries_.erase(user.base() - 1, entries_.end());
  return true;
}

size_t Conversation::DropOldest(size_t num_turns) {
  size_t num_begun = 0;
  size_t end = 0;
  for (; end < entries_.size(); ++end) {
    if (entries_[end].message.role() == "user" && num_begun++ == num_turns) break;
  }
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(end));
  return std::min(num_begun, num_turns);
}

void Conversation::AppendTo(v1::Chat* chat) const {
  if (!system_.empty()) *chat->add_messages() = TextMessage("system", system_);
  for (const Entry& entry : entries_) *chat->add_messages() = entry.message;
}

Json Conversation::ToJson() const {
  Json list = Json::array();
  if (!system_.empty()) list.push_back(MessageJson(TextMessage("system", system_)));
  for (const Entry& entry : entries_) {
    list.push_back(MessageJson(entry.message));
    if (entry.cut) list.back()["cut"] = true;
  }
  return list;
}

}  // namespace dunlin::cli
