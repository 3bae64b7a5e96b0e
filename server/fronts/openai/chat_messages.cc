// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/chat_messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/image_parts.h"

namespace dunlin::server {
namespace {

using text::ChatMessage;
using text::ChatToolCall;
using V = JsonValue;
using B = GenerationBody;

constexpr FieldRow<ChatToolCall> kFunction[] = {
    Honoured<ChatToolCall>("name", [](const V& v, ChatToolCall* c) { c->name = v.Text(); }),
    Honoured<ChatToolCall>("arguments", [](const V& v, ChatToolCall* c) { c->arguments_json = CallArguments(v); }),
};

constexpr FieldRow<ChatToolCall> kCustom[] = {
    Honoured<ChatToolCall>("name", [](const V& v, ChatToolCall* c) { c->name = v.Text(); }),
    Honoured<ChatToolCall>("input", [](const V& v, ChatToolCall* c) { c->arguments_json = InputArguments(v); }),
};

void ExpectCallType(const V& type) {
  if (!type.ExpectText()) return;
  if (type.json() != "function" && type.json() != "custom") type.FailName("type", "\"function\" or \"custom\"");
}

constexpr FieldRow<ChatToolCall> kToolCall[] = {
    Honoured<ChatToolCall>("id", [](const V& v, ChatToolCall* c) { c->id = v.Text(); }),
    Honoured<ChatToolCall>("type", [](const V& v, ChatToolCall*) { ExpectCallType(v); }),
    Honoured<ChatToolCall>("function",
                           [](const V& v, ChatToolCall* c) { ReadFields(v, FieldTable<ChatToolCall>(kFunction), c); }),
    Honoured<ChatToolCall>("custom",
                           [](const V& v, ChatToolCall* c) { ReadFields(v, FieldTable<ChatToolCall>(kCustom), c); }),
    Ignored<ChatToolCall>("index"),
    Ignored<ChatToolCall>("extra_content"),
};

void ReadToolCalls(const V& calls, ChatMessage* message) {
  if (!calls.ExpectArray()) return;
  for (size_t i = 0; i < calls.size() && calls.ok(); ++i) {
    ReadFields(calls.At(i), FieldTable<ChatToolCall>(kToolCall), &message->tool_calls.emplace_back());
  }
}

void ReadRole(const V& role, ChatMessage* message) {
  message->role = role.Text();
  const bool known =
      message->role == "system" || message->role == "user" || message->role == "assistant" || message->role == "tool";
  if (message->role == "developer") {
    message->role = "system";
  } else if (message->role == "function") {
    message->role = "tool";
  } else if (!known) {
    role.FailName("role", "\"system\", \"developer\", \"user\", \"assistant\", \"tool\" or \"function\"");
  }
}

// What the assistant said instead of an answer; content that comes too replaces it.
void ReadRefusal(const V& refusal, ChatMessage* message) {
  std::string text = refusal.Text();
  if (!message->content.has_value() && message->parts.empty()) message->content = std::move(text);
}

constexpr FieldRow<ChatMessage> kMessage[] = {
    Honoured<ChatMessage>("role", ReadRole),
    Honoured<ChatMessage>("content", [](const V& v, ChatMessage* m) { ReadContent(v, "text image_url", m); }),
    Honoured<ChatMessage>("name", [](const V& v, ChatMessage* m) { m->name = v.Text(); }),
    Honoured<ChatMessage>("tool_calls", ReadToolCalls),
    Honoured<ChatMessage>("tool_call_id", [](const V& v, ChatMessage* m) { m->tool_call_id = v.Text(); }),
    Honoured<ChatMessage>("reasoning_content", [](const V& v, ChatMessage* m) { m->reasoning_content = v.Text(); }),
    Honoured<ChatMessage>("reasoning", [](const V& v, ChatMessage* m) { m->reasoning_content = v.Text(); }),
    Ignored<ChatMessage>("annotations"),
    Honoured<ChatMessage>("refusal", ReadRefusal),
    Honoured<ChatMessage>("function_call",
                          [](const V& v, ChatMessage* m) {
                            ReadFields(v, FieldTable<ChatToolCall>(kFunction), &m->tool_calls.emplace_back());
                          }),
    Refused<ChatMessage>("audio", "no audio is stored"),
};

// types: separated by spaces.
bool IsOneOf(const std::string& name, std::string_view types) {
  const std::vector<absl::string_view> known = absl::StrSplit(engine::AbslView(types), ' ');
  return std::find(known.begin(), known.end(), name) != known.end();
}

void ReadPart(const V& part, std::string_view types, text::ChatPart* out) {
  if (!part.ExpectObject()) return;
  const V type = part.At("type");
  const std::string name = type.Text();
  const bool refusal = name == "refusal";
  if (!refusal && !IsOneOf(name, types)) {
    return type.FailName("type", absl::StrCat(engine::AbslView(types), ": ", engine::AbslView(kTextAndImages)));
  }
  if (name == "image_url" || name == "input_image") {
    *out = name == "image_url" ? ReadImageUrlPart(part) : ReadInputImagePart(part);
    return;
  }
  out->type = "text";
  out->text = part.At(refusal ? "refusal" : "text").Text();
  part.IgnoreAllBut("type text refusal cache_control citations annotations logprobs prompt_cache_breakpoint");
}

}  // namespace

std::string InputArguments(const JsonValue& input) {
  return DumpJson(Json{{"input", input.Text()}});
}

std::string CallArguments(const JsonValue& arguments) {
  std::string text = arguments.Text();
  if (absl::StripAsciiWhitespace(text).empty()) return "";
  if (IsJsonObject(text)) return text;
  return InputArguments(arguments);
}

void ReadContent(const JsonValue& content, std::string_view types, text::ChatMessage* message) {
  if (content.is_string()) {
    message->content = content.Text();
    return;
  }
  if (!content.is_array()) return content.Fail(content.Shown(), "a string or an array of parts");
  message->content.reset();
  if (content.size() == 0) message->content = "";
  for (size_t i = 0; i < content.size() && content.ok(); ++i) {
    ReadPart(content.At(i), types, &message->parts.emplace_back());
  }
}

std::string ContentText(const text::ChatMessage& message) {
  std::string text = message.content.value_or("");
  for (const text::ChatPart& part : message.parts) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", part.text);
  }
  return text;
}

void ReadMessages(const JsonValue& messages, GenerationBody* body) {
  if (!messages.ExpectArray()) return;
  for (size_t i = 0; i < messages.size() && messages.ok(); ++i) {
    const V message = messages.At(i);
    ReadFields(message, FieldTable<ChatMessage>(kMessage), &body->chat.messages.emplace_back());
    const V role = message.At("role");
    if (role.is_null()) role.Fail(role.Shown(), "a string");
  }
}

void ReadTemplateOptions(const JsonValue& options, GenerationBody* body) {
  if (!options.ExpectObject()) return;
  for (const auto& member : options.json().items()) {
    SetTemplateOption(options.At(member.key()), member.key(), member.value(), body);
  }
}

}  // namespace dunlin::server
