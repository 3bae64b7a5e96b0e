// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/chat_messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {

using engine::ChatMessage;
using engine::ChatToolCall;
using V = JsonValue;
using B = GenerationBody;

constexpr FieldRow<ChatToolCall> kFunction[] = {
    Honoured<ChatToolCall>("name", [](const V& v, ChatToolCall* c) { c->name = v.Text(); }),
    Honoured<ChatToolCall>("arguments", [](const V& v, ChatToolCall* c) { c->arguments_json = v.Text(); }),
};

void ExpectFunction(const V& type) {
  if (type.ExpectText() && type.json() != "function") type.FailName("type", "\"function\"");
}

constexpr FieldRow<ChatToolCall> kToolCall[] = {
    Honoured<ChatToolCall>("id", [](const V& v, ChatToolCall* c) { c->id = v.Text(); }),
    Honoured<ChatToolCall>("type", [](const V& v, ChatToolCall*) { ExpectFunction(v); }),
    Honoured<ChatToolCall>("function",
                           [](const V& v, ChatToolCall* c) { ReadFields(v, FieldTable<ChatToolCall>(kFunction), c); }),
    Ignored<ChatToolCall>("index"),
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
  } else if (!known) {
    role.FailName("role", "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  }
}

constexpr FieldRow<ChatMessage> kMessage[] = {
    Honoured<ChatMessage>("role", ReadRole),
    Honoured<ChatMessage>("content", [](const V& v, ChatMessage* m) { ReadContent(v, "text", m); }),
    Honoured<ChatMessage>("name", [](const V& v, ChatMessage* m) { m->name = v.Text(); }),
    Honoured<ChatMessage>("tool_calls", ReadToolCalls),
    Honoured<ChatMessage>("tool_call_id", [](const V& v, ChatMessage* m) { m->tool_call_id = v.Text(); }),
    Honoured<ChatMessage>("reasoning_content", [](const V& v, ChatMessage* m) { m->reasoning_content = v.Text(); }),
    Honoured<ChatMessage>("reasoning", [](const V& v, ChatMessage* m) { m->reasoning_content = v.Text(); }),
    Ignored<ChatMessage>("annotations"),
    Refused<ChatMessage>("refusal"),
    Refused<ChatMessage>("audio"),
    Refused<ChatMessage>("function_call"),
};

void ReadPart(const V& part, std::string_view types, engine::ChatPart* out) {
  if (!part.ExpectObject()) return;
  const V type = part.At("type");
  const std::string name = type.Text();
  const std::vector<std::string> known = absl::StrSplit(engine::AbslView(types), ' ');
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    return type.FailName("type", types);
  }
  out->type = "text";
  out->text = part.At("text").Text();
  for (const auto& member : part.json().items()) {
    const std::string& key = member.key();
    const bool known_key = key == "type" || key == "text" || key == "cache_control" || key == "citations" ||
                           key == "annotations" || key == "logprobs";
    if (!known_key && !member.value().is_null()) part.At(key).Fail("is not a field of a text part", "");
  }
}

}  // namespace

void ReadContent(const JsonValue& content, std::string_view types, engine::ChatMessage* message) {
  if (content.is_string()) {
    message->content = content.Text();
    return;
  }
  if (!content.is_array()) return content.Fail(content.Shown(), "a string or an array of parts");
  if (content.size() == 0) message->content = "";
  for (size_t i = 0; i < content.size() && content.ok(); ++i) {
    ReadPart(content.At(i), types, &message->parts.emplace_back());
  }
}

std::string ContentText(const engine::ChatMessage& message) {
  std::string text = message.content.value_or("");
  for (const engine::ChatPart& part : message.parts) {
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

void ReadTools(const JsonValue& tools, GenerationBody* body) {
  if (!tools.ExpectArray()) return;
  for (size_t i = 0; i < tools.size() && tools.ok(); ++i) {
    const V tool = tools.At(i);
    if (!tool.ExpectObject()) return;
    ExpectFunction(tool.At("type"));
    const V function = tool.At("function");
    if (function.ExpectObject()) function.At("name").ExpectText();
  }
  if (tools.size() > 0) body->chat.tools_json = DumpJson(tools.json());
}

void ReadFlatTools(const JsonValue& tools, std::string_view type, std::string_view schema, GenerationBody* body) {
  if (!tools.ExpectArray()) return;
  Json list = Json::array();
  for (size_t i = 0; i < tools.size() && tools.ok(); ++i) {
    const V tool = tools.At(i);
    if (!tool.ExpectObject()) return;
    const V tool_type = tool.At("type");
    if (!tool_type.is_null() && tool_type.json() != type) tool_type.FailName("type", type);
    Json function = {{"name", tool.At("name").Text()}};
    const V description = tool.At("description");
    if (!description.is_null()) function["description"] = description.Text();
    const V parameters = tool.At(schema);
    if (!parameters.is_null() && parameters.ExpectObject()) function["parameters"] = parameters.json();
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (!list.empty()) body->chat.tools_json = DumpJson(list);
}

void ReadToolChoice(const JsonValue& choice, GenerationBody* body) {
  using Mode = ClientToolChoice::Mode;
  ClientToolChoice& out = body->request->tool_choice;
  if (choice.is_object()) {
    ExpectFunction(choice.At("type"));
    out.mode = Mode::kNamed;
    const V function = choice.At("function");
    out.name = (function.is_object() ? function.At("name") : choice.At("name")).Text();
    return;
  }
  const std::string mode = choice.Text();
  if (mode == "none") {
    out.mode = Mode::kNone;
  } else if (mode == "required") {
    out.mode = Mode::kRequired;
  } else if (mode != "auto") {
    choice.FailName("mode", "\"auto\", \"none\", \"required\" or a function");
  }
}

void ReadTemplateOptions(const JsonValue& options, GenerationBody* body) {
  if (!options.ExpectObject()) return;
  for (const auto& member : options.json().items()) {
    SetTemplateOption(options.At(member.key()), member.key(), member.value(), body);
  }
}

}  // namespace dunlin::server
