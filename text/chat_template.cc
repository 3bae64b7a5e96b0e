// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file.h"
#include "text/abi.h"

namespace dunlin::text {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void AppendString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out->append("\\u00");
      out->push_back(kHexDigits[static_cast<unsigned char>(c) >> 4U]);
      out->push_back(kHexDigits[static_cast<unsigned char>(c) & 0xFU]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

// `,"name":"value"`; nothing for an empty value.
void AppendField(std::string_view name, std::string_view value, std::string* out) {
  if (value.empty()) return;
  out->push_back(',');
  AppendString(name, out);
  out->push_back(':');
  AppendString(value, out);
}

void AppendContent(const ChatMessage& message, std::string* out) {
  if (message.parts.empty()) {
    if (!message.content.has_value()) return;
    out->append(",\"content\":");
    return AppendString(*message.content, out);
  }
  out->append(",\"content\":[");
  for (const ChatPart& part : message.parts) {
    out->append(&part == message.parts.data() ? "{\"type\":" : ",{\"type\":");
    AppendString(part.type, out);
    if (part.image == nullptr) {
      out->append(",\"text\":");
      AppendString(part.text, out);
    }
    out->push_back('}');
  }
  out->push_back(']');
}

void AppendToolCalls(const std::vector<ChatToolCall>& calls, std::string* out) {
  if (calls.empty()) return;
  out->append(",\"tool_calls\":[");
  for (const ChatToolCall& call : calls) {
    out->append(&call == calls.data() ? "{" : ",{");
    if (!call.id.empty()) {
      out->append("\"id\":");
      AppendString(call.id, out);
      out->push_back(',');
    }
    out->append("\"type\":\"function\",\"function\":{\"name\":");
    AppendString(call.name, out);
    out->append(",\"arguments\":");
    AppendString(call.arguments_json, out);
    out->append("}}");
  }
  out->push_back(']');
}

// The fields of an object in JSON, without its braces.
std::string_view Inside(std::string_view object) {
  const size_t open = object.find('{');
  const size_t close = object.rfind('}');
  if (open == std::string_view::npos || close == std::string_view::npos || close <= open) return "";
  const std::string_view fields = object.substr(open + 1, close - open - 1);
  return fields.find_first_not_of(" \t\r\n") == std::string_view::npos ? "" : fields;
}

struct ChatFiles {
  std::string config;
  std::string chat_template;
  std::string tool_use;
  std::string processor_template;
};

// A file that is not there leaves *text empty. A link to nothing is an error: a download that is not complete.
absl::Status ReadIfThere(const engine::TextFiles& directory, const char* name, size_t max_bytes, std::string* text) {
  absl::StatusOr<std::string> read = directory.ReadFile(name, max_bytes);
  if (absl::IsNotFound(read.status())) {
    return directory.Has(name) ? absl::InvalidArgumentError(read.status().message()) : absl::OkStatus();
  }
  if (!read.ok()) return read.status();
  *text = *std::move(read);
  return absl::OkStatus();
}

// additional_chat_templates/tool_use.jinja.
absl::Status ReadToolUse(const engine::TextFiles& model, std::string* text) {
  constexpr char kFolder[] = "additional_chat_templates";
  const absl::StatusOr<std::unique_ptr<engine::TextFiles>> folder = model.OpenFolder(kFolder);
  if (absl::IsNotFound(folder.status()) && !model.Has(kFolder)) return absl::OkStatus();
  if (!folder.ok()) return folder.status();
  return ReadIfThere(**folder, "tool_use.jinja", kMaxChatTemplateBytes, text);
}

int32_t CallWorker(void* context, const uint8_t* request, size_t request_size, bool prepares, dunlin_text_reply* reply,
                   dunlin_text_error* error) {
  const std::string_view bytes(reinterpret_cast<const char*>(request), request_size);
  const absl::StatusOr<std::string> answer = static_cast<TextWorkerCalls*>(context)->Call(bytes, prepares);
  if (!answer.ok()) return text_abi::ToError(answer.status(), error);
  dunlin_text_reply_append(reply, text_abi::Data(*answer), answer->size());
  return 0;
}

dunlin_text_apart Apart(TextWorkerCalls* workers) {
  return {workers == nullptr ? nullptr : &CallWorker, workers};
}

}  // namespace

std::string MessagesJson(const std::vector<ChatMessage>& messages) {
  std::string out = "[";
  for (const ChatMessage& message : messages) {
    out.append(&message == messages.data() ? "{\"role\":" : ",{\"role\":");
    AppendString(message.role, &out);
    AppendContent(message, &out);
    AppendField("reasoning_content", message.reasoning_content, &out);
    AppendField("name", message.name, &out);
    AppendToolCalls(message.tool_calls, &out);
    AppendField("tool_call_id", message.tool_call_id, &out);
    if (const std::string_view extra = Inside(message.extra_fields_json); !extra.empty()) {
      out.push_back(',');
      out.append(extra);
    }
    out.push_back('}');
  }
  out.push_back(']');
  return out;
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::string& model_dir, std::string_view given,
                                                                 std::unique_ptr<TextWorkerCalls> workers) {
  if (model_dir.empty()) return Load(engine::MemoryFiles({}), given, std::move(workers));
  const absl::StatusOr<engine::Directory> directory = engine::Directory::Open(model_dir);
  if (!directory.ok()) return directory.status();
  return Load(*directory, given, std::move(workers));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const engine::TextFiles& model, std::string_view given,
                                                                 std::unique_ptr<TextWorkerCalls> workers) {
  ChatFiles files;
  absl::Status read = ReadIfThere(model, "tokenizer_config.json", kMaxTokenizerConfigBytes, &files.config);
  if (!read.ok()) return read;
  if (given.empty()) {
    read = ReadIfThere(model, "chat_template.jinja", kMaxChatTemplateBytes, &files.chat_template);
    if (!read.ok()) return read;
    if (read = ReadToolUse(model, &files.tool_use); !read.ok()) return read;
    read = ReadIfThere(model, "chat_template.json", kMaxTokenizerConfigBytes, &files.processor_template);
    if (!read.ok()) return read;
  }
  const dunlin_text_chat_files views = {text_abi::Data(files.config),
                                        files.config.size(),
                                        text_abi::Data(files.chat_template),
                                        files.chat_template.size(),
                                        text_abi::Data(files.tool_use),
                                        files.tool_use.size(),
                                        text_abi::Data(files.processor_template),
                                        files.processor_template.size()};
  dunlin_text_chat* handle = nullptr;
  dunlin_text_error error{};
  const int32_t code =
      dunlin_text_chat_load(&views, text_abi::Data(given), given.size(), Apart(workers.get()), &handle, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  std::unique_ptr<ChatTemplate> loaded(new ChatTemplate(std::move(workers), handle));
  text_abi::Bytes source;
  const int32_t source_code = dunlin_text_chat_source(handle, source.out(), &error);
  if (source_code != 0) return text_abi::ToStatus(source_code, error);
  loaded->source_ = source.Take();
  return loaded;
}

ChatTemplate::~ChatTemplate() {
  dunlin_text_chat_free(handle_);
}

absl::StatusOr<RenderedChat> ChatTemplate::Render(const Tokenizer& tokenizer, const ChatInput& chat,
                                                  const LocalTime& now) const {
  const std::string messages = MessagesJson(chat.messages);
  return Render(tokenizer,
                ChatJson{.messages = messages,
                         .tools = chat.tools_json,
                         .options = chat.template_options_json,
                         .add_generation_prompt = chat.add_generation_prompt,
                         .continue_final_message = chat.continue_final_message,
                         .parse_special_tokens = chat.parse_special_tokens},
                now);
}

absl::StatusOr<RenderedChat> ChatTemplate::Render(const Tokenizer& tokenizer, const ChatJson& chat,
                                                  const LocalTime& now) const {
  dunlin_text_chat_request request{};
  request.messages = text_abi::Data(chat.messages);
  request.messages_size = chat.messages.size();
  request.tools = text_abi::Data(chat.tools);
  request.tools_size = chat.tools.size();
  request.options = text_abi::Data(chat.options);
  request.options_size = chat.options.size();
  request.unix_seconds = now.unix_seconds;
  request.utc_offset_seconds = now.utc_offset_seconds;
  if (chat.add_generation_prompt) request.flags |= DUNLIN_TEXT_ADD_GENERATION_PROMPT;
  if (chat.continue_final_message) request.flags |= DUNLIN_TEXT_CONTINUE_FINAL_MESSAGE;
  if (chat.parse_special_tokens) request.flags |= DUNLIN_TEXT_PARSE_SPECIAL;
  text_abi::Bytes text;
  text_abi::Ids breaks;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_chat_render(handle_, tokenizer.handle(), &request, text.out(), breaks.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return RenderedChat{.text = text.Take(), .breaks = breaks.Take()};
}

absl::StatusOr<std::vector<engine::TokenId>> ChatTemplate::Encode(const Tokenizer& tokenizer,
                                                                  const RenderedChat& chat) {
  text_abi::Ids ids;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_chat_encode(tokenizer.handle(), text_abi::Data(chat.text), chat.text.size(),
                                               chat.breaks.data(), chat.breaks.size(), ids.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return ids.Take();
}

}  // namespace dunlin::text
