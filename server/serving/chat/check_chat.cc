// SPDX-License-Identifier: Apache-2.0
#include "server/serving/chat/check_chat.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/string_view.h"
#include "engine/request/field_checks.h"
#include "server/json/json_value.h"
#include "server/serving/record/client_field.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

using engine::Violation;
using C = ClientField;

constexpr size_t kMaxQuotedBytes = 32;

std::optional<Violation> CheckCountOf(engine::Field field, size_t count, size_t max, int64_t message) {
  auto violation = engine::CheckCount(field, count, max);
  if (violation.has_value()) violation->index = {message, 0};
  return violation;
}

std::optional<Violation> CheckUtf8(engine::Field field, std::string_view text, engine::FieldIndex index) {
  if (text::IsValidUtf8(text)) return std::nullopt;
  return Violation::Of(field, "is not UTF-8", "", index);
}

// The value, or a violation; `text` is not empty. Depth is bounded before anything is built.
std::optional<Violation> ReadJson(engine::Field field, const std::string& text, engine::FieldIndex index, Json* value) {
  if (auto v = CheckUtf8(field, text, index)) return v;
  if (engine::IsNestedDeeper(text, kMaxChatJsonDepth)) {
    return Violation::Of(field, absl::StrCat("is nested deeper than ", kMaxChatJsonDepth),
                         absl::StrCat(kMaxChatJsonDepth), index);
  }
  const std::optional<JsonFault> fault = ParseJson(text, value);
  if (!fault.has_value()) return std::nullopt;
  switch (fault->kind) {
    case JsonFault::Kind::kMalformed:
    case JsonFault::Kind::kNumber:
      return Violation::Of(field, "is not JSON", "", index);
    case JsonFault::Kind::kTwice:
      if (field == engine::Field(C::kChatToolCallArguments)) {  // as a model wrote it: the last value counts
        *value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
        if (value->is_discarded()) return Violation::Of(field, "is not JSON", "", index);
        return std::nullopt;
      }
      return Violation::Of(field, absl::StrCat("has ", fault->path, " twice"), "", index);
    case JsonFault::Kind::kBound:
      return Violation::Of(field, fault->problem, fault->limit, index);
  }
  return std::nullopt;
}

std::optional<Violation> CheckJsonObject(engine::Field field, const std::string& text, engine::FieldIndex index = {}) {
  if (text.empty()) return std::nullopt;
  Json value;
  if (auto v = ReadJson(field, text, index, &value)) return v;
  if (value.is_object()) return std::nullopt;
  return Violation::Of(field, absl::StrCat("is a JSON ", value.type_name()), "an object", index);
}

std::optional<Violation> CheckTools(const std::string& text) {
  if (text.empty()) return std::nullopt;
  Json tools;
  if (auto v = ReadJson(C::kChatTools, text, {}, &tools)) return v;
  const bool is_list =
      tools.is_array() && std::all_of(tools.begin(), tools.end(), [](const Json& tool) { return tool.is_object(); });
  if (!is_list) {
    return Violation::Of(C::kChatTools, "is not a JSON list of objects", "a list of function definitions");
  }
  return engine::CheckCount(C::kChatTools, tools.size(), kMaxChatTools);
}

std::optional<Violation> CheckRole(std::string_view role, int64_t index) {
  const bool is_word = std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (is_word && !role.empty() && role.size() <= kMaxChatRoleBytes) return std::nullopt;
  return Violation::Of(C::kChatRole, absl::StrCat("is ", QuotedWord(role)),
                       absl::StrCat("1 to ", kMaxChatRoleBytes, " letters, digits, '_', '-' or '.'"), {index, 0});
}

std::optional<Violation> CheckParts(const text::ChatMessage& message, int64_t index) {
  if (message.parts.empty()) return std::nullopt;
  if (message.content.has_value()) {
    return Violation::Of(C::kChatContent, "is given besides parts", "one of the two", {index, 0});
  }
  if (auto v = CheckCountOf(C::kChatParts, message.parts.size(), kMaxChatParts, index)) return v;
  int64_t part_index = 0;
  for (const text::ChatPart& part : message.parts) {
    if (part.type != "text" && part.type != "image") {
      return Violation::Of(C::kChatPartType, absl::StrCat("is ", QuotedWord(part.type)),
                           "\"text\", or \"image\" where the model sees images", {index, part_index});
    }
    if ((part.type == "image") != (part.image != nullptr && !part.image->empty())) {
      return Violation::Of(C::kChatPartImage, part.type == "image" ? "is empty" : "is given with a text",
                           "the file of an image, of type \"image\"", {index, part_index});
    }
    if (auto v = CheckUtf8(C::kChatPartText, part.text, {index, part_index})) return v;
    ++part_index;
  }
  return std::nullopt;
}

std::optional<Violation> CheckToolCalls(const text::ChatMessage& message, int64_t index) {
  if (auto v = CheckCountOf(C::kChatToolCalls, message.tool_calls.size(), kMaxToolCalls, index)) return v;
  int64_t call_index = 0;
  for (const text::ChatToolCall& call : message.tool_calls) {
    if (call.name.empty()) {
      return Violation::Of(C::kChatToolCallName, "is empty", "the name of a function", {index, call_index});
    }
    if (auto v = CheckUtf8(C::kChatToolCallName, call.name, {index, call_index})) return v;
    if (auto v = CheckUtf8(C::kChatToolCallName, call.id, {index, call_index})) return v;
    if (auto v = CheckJsonObject(C::kChatToolCallArguments, call.arguments_json, {index, call_index})) return v;
    ++call_index;
  }
  return std::nullopt;
}

// The message's own fields stay what they were checked as.
std::optional<Violation> CheckExtraFields(const text::ChatMessage& message, int64_t index) {
  const std::string& text = message.extra_fields_json;
  if (text.empty()) return std::nullopt;
  Json fields;
  if (auto v = ReadJson(C::kChatExtraFields, text, {index, 0}, &fields)) return v;
  if (!fields.is_object()) return CheckJsonObject(C::kChatExtraFields, text, {index, 0});
  for (const char* own : {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}) {
    if (!fields.contains(own)) continue;
    return Violation::Of(C::kChatExtraFields, absl::StrCat("has \"", own, "\""), "names without a field of their own",
                         {index, 0});
  }
  return std::nullopt;
}

std::optional<Violation> CheckMessage(const text::ChatMessage& message, int64_t index) {
  if (auto v = CheckRole(message.role, index)) return v;
  if (auto v = CheckParts(message, index)) return v;
  for (const std::string* text : {&message.name, &message.tool_call_id, &message.reasoning_content}) {
    if (auto v = CheckUtf8(C::kChatMessage, *text, {index, 0})) return v;
  }
  if (message.content.has_value()) {
    if (auto v = CheckUtf8(C::kChatContent, *message.content, {index, 0})) return v;
  }
  if (auto v = CheckToolCalls(message, index)) return v;
  return CheckExtraFields(message, index);
}

}  // namespace

std::string QuotedWord(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(std::string(text.substr(0, kMaxQuotedBytes))), "\"");
}

size_t BytesOf(const text::ChatInput& chat) {
  size_t bytes = chat.tools_json.size() + chat.template_options_json.size();
  for (const text::ChatMessage& message : chat.messages) {
    bytes += message.role.size() + message.name.size() + message.tool_call_id.size() +
             message.reasoning_content.size() + message.extra_fields_json.size();
    if (message.content.has_value()) bytes += message.content->size();
    for (const text::ChatPart& part : message.parts) bytes += part.text.size();
    for (const text::ChatToolCall& call : message.tool_calls) {
      bytes += call.id.size() + call.name.size() + call.arguments_json.size();
    }
  }
  return bytes;
}

std::optional<Violation> CheckChat(const text::ChatInput& chat) {
  if (chat.messages.empty()) return Violation::Of(C::kChatMessages, "has 0 entries", "1 or more");
  if (auto v = engine::CheckCount(C::kChatMessages, chat.messages.size(), kMaxChatMessages)) return v;
  if (auto v = engine::CheckBytes(C::kChat, BytesOf(chat), 1, text::kMaxTextBytes)) return v;
  if (chat.continue_final_message && chat.add_generation_prompt) {
    return Violation::Against(C::kChatAddGenerationPrompt, C::kChatContinueFinalMessage, "excludes *",
                              "one of the two");
  }
  int64_t index = 0;
  for (const text::ChatMessage& message : chat.messages) {
    if (auto v = CheckMessage(message, index++)) return v;
  }
  if (auto v = CheckTools(chat.tools_json)) return v;
  return CheckJsonObject(C::kChatTemplateOptions, chat.template_options_json);
}

}  // namespace dunlin::server
