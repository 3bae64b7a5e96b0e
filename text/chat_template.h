// SPDX-License-Identifier: Apache-2.0
// Chat templates: messages to a prompt, as apply_chat_template of Hugging Face transformers renders and encodes it, by
// minijinja in the Rust library (text/rust/src/chat). Special tokens in the client's strings are text; those
// that the template writes are special tokens.
// Owner: the model. Thread rule: immutable after Load; any number of threads at once. Rendering is bounded in steps and
// may take seconds: call it on the text pool only.
// Source: transformers 5.24, utils/chat_template_utils.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/request/types.h"
#include "text/text_worker.h"
#include "text/tokenizer.h"

struct dunlin_text_chat;  // the C ABI's handle, text/rust/include/dunlin_text.h

namespace dunlin::text {

// A part of a message's content: of type "text", or "image" where the model sees images.
struct ChatPart {
  std::string type;
  std::string text;
  // Of an image: its file, PNG, JPEG, WebP or GIF. Templates see its place alone.
  std::shared_ptr<const std::string> image = nullptr;
};

struct ChatToolCall {
  std::string id;  // "": none
  std::string name;
  std::string arguments_json;  // an object; "": {}
};

// Empty strings are absent fields, apart from `content`.
struct ChatMessage {
  std::string role;
  std::optional<std::string> content;
  std::vector<ChatPart> parts;  // instead of content
  std::string name;
  std::vector<ChatToolCall> tool_calls;
  std::string tool_call_id;
  std::string reasoning_content;
  std::string extra_fields_json;  // an object: further fields, as the model's template reads them
};

struct ChatInput {
  std::vector<ChatMessage> messages;
  std::string tools_json;             // a list of objects; "": none
  std::string template_options_json;  // an object: further variables of the template, such as enable_thinking
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  bool parse_special_tokens = false;    // special tokens in the client's strings are special tokens
  // The caller of Render, not Render, moves system messages to where the template takes them.
  bool moves_system_messages = false;
};

// The time that strftime_now of a template reads.
struct LocalTime {
  int64_t unix_seconds = 0;
  int64_t utc_offset_seconds = 0;
};

struct RenderedChat {
  std::string text;
  // Byte offsets in text, ascending, that no special token spans: inside those that came from the client's strings.
  std::vector<int32_t> breaks;
};

// A chat in the form that templates see.
struct ChatJson {
  std::string_view messages;
  std::string_view tools;
  std::string_view options;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool parse_special_tokens = false;
};

inline constexpr size_t kMaxChatTemplateBytes = size_t{1} << 20;

class ChatTemplate {
 public:
  // The template of a model directory ("": none): chat_template.jinja, or chat_template of tokenizer_config.json, or
  // that of chat_template.json; of several, "default", and "tool_use" for chats with tools. given: replaces the model's
  // own if it is not empty. Files are read as Directory opens them: through no link that leaves the model's directory.
  // workers: where it is compiled and rendered; null: in this process, whose memory and stack a template may exhaust.
  // Errors: NOT_FOUND (there is none); INVALID_ARGUMENT (larger than 1 MiB, or it does not compile: why, and the line);
  // those of workers.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::string& model_dir, std::string_view given,
                                                            std::unique_ptr<TextWorkerCalls> workers = nullptr);
  // As Load, from the texts that stand for such a directory.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const engine::TextFiles& files, std::string_view given,
                                                            std::unique_ptr<TextWorkerCalls> workers = nullptr);

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The prompt of a chat, at most kMaxTextBytes. Errors: INVALID_ARGUMENT (a JSON text; more steps, depth or output
  // than the limits); FAILED_PRECONDITION (what the template raises, in its words, which may be the client's: not for
  // logs); those of Load's workers, RESOURCE_EXHAUSTED among them. Messages complete the sentence "chat ...".
  absl::StatusOr<RenderedChat> Render(const Tokenizer& tokenizer, const ChatInput& chat, const LocalTime& now) const;
  absl::StatusOr<RenderedChat> Render(const Tokenizer& tokenizer, const ChatJson& chat, const LocalTime& now) const;

  // The template's text; that for tools follows, where it is another. It tells the forms of the model's output.
  const std::string& source() const { return source_; }

  // Token ids of a rendered chat. Nothing is added around it: templates write the BOS token themselves.
  // Errors: as Tokenizer::Encode.
  static absl::StatusOr<std::vector<engine::TokenId>> Encode(const Tokenizer& tokenizer, const RenderedChat& chat);

 private:
  ChatTemplate(std::unique_ptr<TextWorkerCalls> workers, dunlin_text_chat* handle)
      : workers_(std::move(workers)), handle_(handle) {}

  std::unique_ptr<TextWorkerCalls> workers_;  // null: none
  dunlin_text_chat* handle_;                  // owned, never null
  std::string source_;
};

// The messages as a JSON list, in the words of Hugging Face's templates. tool_calls[].function.arguments is a string.
std::string MessagesJson(const std::vector<ChatMessage>& messages);

}  // namespace dunlin::text
