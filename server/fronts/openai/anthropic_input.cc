// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/anthropic_input.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/field_names.h"
#include "server/serving/errors.h"

namespace dunlin::server {
namespace {

using engine::ChatMessage;
using V = JsonValue;
using B = GenerationBody;

// What the content of one message becomes: a message of the assistant, or results of tools and a message of the user.
class BlockReader {
 public:
  BlockReader(std::string role, engine::ChatInput* chat) : role_(std::move(role)), chat_(chat) {}

  void Read(const V& block) {
    if (!block.ExpectObject()) return;
    const V type = block.At("type");
    const std::string name = type.Text();
    if (name == "text") {
      Current().parts.push_back({"text", block.At("text").Text()});
    } else if (name == "tool_result" && role_ == "user") {
      ReadToolResult(block);
    } else if (name == "tool_use" && role_ == "assistant") {
      ReadToolUse(block);
    } else if (name == "thinking" && role_ == "assistant") {
      Current().reasoning_content.append(block.At("thinking").Text());
    } else {
      type.FailName("type of block of this role",
                    role_ == "user" ? "\"text\" or \"tool_result\"" : "\"text\", \"thinking\" or \"tool_use\"");
    }
  }

 private:
  void ReadToolUse(const V& block) {
    const V input = block.At("input");
    if (!input.ExpectObject()) return;
    Current().tool_calls.push_back({block.At("id").Text(), block.At("name").Text(), DumpJson(input.json())});
  }

  void ReadToolResult(const V& block) {
    message_ = nullptr;
    ChatMessage& message = chat_->messages.emplace_back();
    message.role = "tool";
    message.tool_call_id = block.At("tool_use_id").Text();
    const V content = block.At("content");
    if (content.is_null()) {
      message.content = "";
    } else {
      ReadContent(content, "text", &message);
    }
  }

  // Adding a message moves the others.
  ChatMessage& Current() {
    if (message_ == nullptr) {
      message_ = &chat_->messages.emplace_back();
      message_->role = role_;
    }
    return *message_;
  }

  const std::string role_;
  engine::ChatInput* const chat_;
  ChatMessage* message_ = nullptr;  // that text is added to
};

void ReadMessage(const V& value, B* body) {
  if (!value.ExpectObject()) return;
  const V role = value.At("role");
  const std::string name = role.Text();
  if (name != "user" && name != "assistant") return role.FailName("role", "\"user\" or \"assistant\"");
  const V content = value.At("content");
  if (content.is_string()) {
    ChatMessage& message = body->chat.messages.emplace_back();
    message.role = name;
    message.content = content.Text();
    return;
  }
  if (!content.is_array()) return content.Fail(content.Shown(), "a string or an array of blocks");
  BlockReader reader(name, &body->chat);
  for (size_t i = 0; i < content.size() && content.ok(); ++i) reader.Read(content.At(i));
}

void ReadMessageList(const V& value, B* body) {
  if (!value.ExpectArray()) return;
  for (size_t i = 0; i < value.size() && value.ok(); ++i) ReadMessage(value.At(i), body);
}

// The first message, wherever the field stands in the body.
void ReadSystem(const V& value, B* body) {
  ChatMessage message;
  message.role = "system";
  ReadContent(value, "text", &message);
  body->chat.messages.insert(body->chat.messages.begin(), std::move(message));
}

void ReadAnthropicToolChoice(const V& value, B* body) {
  using Mode = ClientToolChoice::Mode;
  if (!value.ExpectObject()) return;
  ClientToolChoice& out = body->request->tool_choice;
  const V type = value.At("type");
  const std::string name = type.Text();
  if (name == "any") {
    out.mode = Mode::kRequired;
  } else if (name == "none") {
    out.mode = Mode::kNone;
  } else if (name == "tool") {
    out.mode = Mode::kNamed;
    out.name = value.At("name").Text();
  } else if (name != "auto") {
    type.FailName("type", "\"auto\", \"any\", \"tool\" or \"none\"");
  }
  const V disable = value.At("disable_parallel_tool_use");
  if (!disable.is_null()) out.parallel = !disable.Bool();
}

// Templates that can think read enable_thinking. How long they think is not bounded: budget_tokens has no effect.
void ReadThinking(const V& value, B* body) {
  if (!value.ExpectObject()) return;
  const V type = value.At("type");
  const std::string name = type.Text();
  const bool enabled = name == "enabled" || name == "adaptive";
  if (!enabled && name != "disabled") return type.FailName("type", "\"enabled\", \"adaptive\" or \"disabled\"");
  SetTemplateOption(value, "enable_thinking", enabled, body);
}

constexpr GenerationRow kOutputConfig[] = {
    Honoured<B>("format",
                [](const V& v, B* b) {
                  if (v.ExpectObject()) ReadFormat(v, v, b);
                }),
    Honoured<B>("effort", [](const V& v, B* b) { SetTemplateOption(v, "reasoning_effort", v.Text(), b); }),
};

constexpr GenerationRow kFields[] = {
    Honoured<B>("messages", ReadMessageList),
    Honoured<B>("system", ReadSystem),
    Honoured<B>("max_tokens", [](const V& v, B* b) { b->request->stopping.max_tokens = v.Int(); }),
    Honoured<B>("stop_sequences", [](const V& v, B* b) { b->request->stopping.stop = v.Texts(); }),
    Honoured<B>("stream", [](const V& v, B* b) { b->stream = v.Bool(); }),
    Honoured<B>("tools", [](const V& v, B* b) { ReadFlatTools(v, "custom", "input_schema", b); }),
    Honoured<B>("tool_choice", ReadAnthropicToolChoice),
    Honoured<B>("thinking", ReadThinking),
    Honoured<B>("output_config", [](const V& v, B* b) { ReadFields(v, GenerationTable(kOutputConfig), b); }),
    Honoured<B>("output_format",
                [](const V& v, B* b) {
                  if (v.ExpectObject()) ReadFormat(v, v, b);
                }),
    Honoured<B>("chat_template_kwargs", ReadTemplateOptions),
    Ignored<B>("metadata"),
    Ignored<B>("service_tier"),
    Ignored<B>("inference_geo"),
    Ignored<B>("cache_control"),
    Ignored<B>("context_management"),
    Refused<B>("container"),
    Refused<B>("mcp_servers"),
};

}  // namespace

std::span<const GenerationTable> MessagesFields() {
  static const GenerationTable kTables[] = {GenerationTable(kFields), kSamplingFields, kServingFields};
  return kTables;
}

absl::Status ReadMessagesBody(std::string_view text, bool counts_tokens, GenerationBody* body) {
  body->request->field_names = &kAnthropicFieldNames;
  absl::Status status = ReadGenerationBody(text, MessagesFields(), body);
  const std::vector<ChatMessage>& messages = body->chat.messages;
  const bool prefilled = !messages.empty() && messages.back().role == "assistant" && messages.back().tool_calls.empty();
  body->chat.continue_final_message = prefilled;
  FinishChat(body);
  if (!status.ok() || counts_tokens || body->request->stopping.max_tokens.has_value()) return status;
  return InvalidField("max_tokens", "is missing", "an integer");
}

}  // namespace dunlin::server
