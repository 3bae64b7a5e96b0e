// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/anthropic_input.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/chat_tools.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/image_parts.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using text::ChatMessage;
using V = JsonValue;
using B = GenerationBody;

std::string ReadableBlocks() {
  return absl::StrCat("blocks of text and images: ", engine::AbslView(kTextAndImages));
}

// Collects the texts and images inside a block that is neither itself: a document, a search result, the result of a
// tool that ran elsewhere. The order is that of the block's members.
class PartsInside {
 public:
  explicit PartsInside(ChatMessage* message) : message_(message) {}

  // False if there is none.
  bool Read(const V& block) {
    const Json& type = block.At("type").json();
    if (type == "document" || type == "search_result") {
      AddMember(block, "title");
      AddMember(block, "context");
    }
    AddMember(block, "stdout");
    AddMember(block, "stderr");
    const V source = block.At("source");
    if (source.is_object() && source.At("type").json() == "text") AddMember(source, "data");
    if (source.is_object()) ReadContent(source);
    AddMember(block, "content");
    ReadContent(block);
    return found_;
  }

 private:
  void ReadContent(const V& block) {
    const V content = block.At("content");
    if (content.is_object()) ReadElement(content);
    for (size_t i = 0; content.is_array() && i < content.size(); ++i) {
      const V element = content.At(i);
      if (element.is_object()) ReadElement(element);
    }
  }

  void ReadElement(const V& element) {
    const V type = element.At("type");
    if (type.json() == "text") return AddMember(element, "text");
    if (type.json() == "image") return AddImage(element);
    Read(element);
  }

  void AddImage(const V& block) {
    message_->parts.push_back(ReadImageBlock(block));
    found_ = true;
  }

  void AddMember(const V& object, const char* name) {
    const V text = object.At(name);
    if (!text.is_string() || text.Text().empty()) return;
    message_->parts.push_back({"text", text.Text()});
    found_ = true;
  }

  ChatMessage* const message_;
  bool found_ = false;
};

void ExpectText(const V& source) {
  if (!source.ExpectObject()) return;
  const V type = source.At("type");
  if (type.json() == "text" || type.json() == "content") return;
  type.FailName("source", absl::StrCat("\"text\" or \"content\": ", engine::AbslView(kTextAndImages)));
}

// A block that every list of blocks may have: adds its text or image to *message, or leaves it out. Errors: a block
// whose content the model would have to see.
void ReadPlainBlock(const V& block, ChatMessage* message) {
  const V type = block.At("type");
  const std::string name = type.Text();
  if (name == "text") {
    block.IgnoreAllBut("type text cache_control citations");
    message->parts.push_back({"text", block.At("text").Text()});
    return;
  }
  if (name == "image") {
    message->parts.push_back(ReadImageBlock(block));
    return;
  }
  if (name == "container_upload") return type.FailName("type of block", ReadableBlocks());
  if (name == "document") ExpectText(block.At("source"));
  if (type.ok() && !PartsInside(message).Read(block)) block.LeaveOut("type", ReadableBlocks());
}

// Content of a message, of a result of a tool, or of the system: a text, or blocks.
void ReadBlocks(const V& content, ChatMessage* message) {
  if (content.is_string()) {
    message->content = content.Text();
    return;
  }
  if (!content.is_array()) return content.Fail(content.Shown(), "a string or an array of blocks");
  for (size_t i = 0; i < content.size() && content.ok(); ++i) {
    const V block = content.At(i);
    if (block.ExpectObject()) ReadPlainBlock(block, message);
  }
  if (message->parts.empty()) message->content = "";
}

// What the blocks of one message become: a message of its role, and results of tools before it.
class BlockReader {
 public:
  BlockReader(std::string role, text::ChatInput* chat)
      : role_(std::move(role)), chat_(chat), num_before_(chat->messages.size()) {}

  void Read(const V& block) {
    if (!block.ExpectObject()) return;
    const Json& type = block.At("type").json();
    if (type == "tool_result" && role_ == "user") return ReadToolResult(block);
    if (type == "tool_use" && role_ == "assistant") return ReadToolUse(block);
    if (type == "thinking" && role_ == "assistant") return ReadThinking(block);
    if (type == "tool_result" || type == "tool_use") {
      const char* limit = role_ == "user" ? "blocks of the user" : "blocks of the assistant";
      return block.At("type").FailName("type of block of this role", limit);
    }
    ReadPlainBlock(block, &Current());
  }

  // A message of which all blocks were left out stays unless it had results of tools, so that roles take turns.
  void End() {
    ChatMessage* const message = std::exchange(message_, nullptr);
    if (message == nullptr || !message->parts.empty() || !message->tool_calls.empty()) return;
    if (!message->reasoning_content.empty()) return;
    if (chat_->messages.size() > num_before_ + 1) {
      chat_->messages.pop_back();
    } else {
      message->content = "";
    }
  }

 private:
  void ReadThinking(const V& block) {
    block.IgnoreAllBut("type thinking signature cache_control");
    Current().reasoning_content.append(block.At("thinking").Text());
  }

  void ReadToolUse(const V& block) {
    block.IgnoreAllBut("type id name input cache_control caller");
    const V input = block.At("input");
    if (!input.ExpectObject()) return;
    Current().tool_calls.push_back({block.At("id").Text(), block.At("name").Text(), DumpJson(input.json())});
  }

  void ReadToolResult(const V& block) {
    block.IgnoreAllBut("type tool_use_id content is_error cache_control");
    End();
    ChatMessage& message = chat_->messages.emplace_back();
    message.role = "tool";
    message.tool_call_id = block.At("tool_use_id").Text();
    const V content = block.At("content");
    if (content.is_null()) {
      message.content = "";
    } else {
      ReadBlocks(content, &message);
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
  text::ChatInput* const chat_;
  const size_t num_before_;         // messages
  ChatMessage* message_ = nullptr;  // that text is added to: the last one
};

void ReadMessage(const V& value, B* body) {
  if (!value.ExpectObject()) return;
  value.IgnoreAllBut("role content");
  const V role = value.At("role");
  const std::string name = role.Text();
  if (name != "user" && name != "assistant" && name != "system") {
    return role.FailName("role", "\"user\", \"assistant\" or \"system\"");
  }
  const V content = value.At("content");
  if (content.is_string() || name == "system") {
    ChatMessage& message = body->chat.messages.emplace_back();
    message.role = name;
    return ReadBlocks(content, &message);
  }
  if (!content.is_array()) return content.Fail(content.Shown(), "a string or an array of blocks");
  BlockReader reader(name, &body->chat);
  for (size_t i = 0; i < content.size() && content.ok(); ++i) reader.Read(content.At(i));
  reader.End();
}

void ReadMessageList(const V& value, B* body) {
  if (!value.ExpectArray()) return;
  for (size_t i = 0; i < value.size() && value.ok(); ++i) ReadMessage(value.At(i), body);
}

void ReadSystem(const V& value, B* body) {
  body->system.emplace();
  body->system->role = "system";
  ReadBlocks(value, &*body->system);
}

void ReadAnthropicToolChoice(const V& value, B* body) {
  using Mode = ClientToolChoice::Mode;
  if (!value.ExpectObject()) return;
  value.IgnoreAllBut("type name disable_parallel_tool_use");
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
  value.IgnoreAllBut("type budget_tokens display");
  const V type = value.At("type");
  const std::string name = type.Text();
  const bool enabled = name == "enabled" || name == "adaptive";
  if (!enabled && name != "disabled") return type.FailName("type", "\"enabled\", \"adaptive\" or \"disabled\"");
  SetTemplateOption(value, "enable_thinking", enabled, body);
}

void ReadOutputFormat(const V& value, B* body) {
  if (!value.ExpectObject()) return;
  value.IgnoreAllBut("type schema");
  ReadFormat(value, value, body);
}

constexpr GenerationRow kOutputConfig[] = {
    Honoured<B>("format", ReadOutputFormat),
    Honoured<B>("effort", [](const V& v, B* b) { SetTemplateOption(v, "reasoning_effort", v.Text(), b); }),
    Ignored<B>("task_budget"),
};

constexpr FlatToolForm kMessagesToolForm = {
    "custom", "input_schema",
    "cache_control strict defer_loading allowed_callers input_examples eager_input_streaming"};

// Tools of servers that nobody asks here.
void LeaveOutServers(const V& value, B* /*body*/) {
  if (value.ExpectArray() && value.size() > 0) value.Ignore();
}

constexpr GenerationRow kMessagesFields[] = {
    Honoured<B>("messages", ReadMessageList),
    Honoured<B>("system", ReadSystem),
    Honoured<B>("max_tokens", [](const V& v, B* b) { b->request->stopping.max_tokens = v.Int(); }),
    Honoured<B>("stop_sequences", [](const V& v, B* b) { b->request->stopping.stop = v.Texts(); }),
    Honoured<B>("stream", [](const V& v, B* b) { b->stream = v.Bool(); }),
    Honoured<B>("tools", [](const V& v, B* b) { ReadFlatTools(v, kMessagesToolForm, b); }),
    Honoured<B>("tool_choice", ReadAnthropicToolChoice),
    Honoured<B>("thinking", ReadThinking),
    Honoured<B>("output_config", [](const V& v, B* b) { ReadFields(v, GenerationTable(kOutputConfig), b); }),
    Honoured<B>("output_format", ReadOutputFormat),
    Honoured<B>("chat_template_kwargs", ReadTemplateOptions),
    Ignored<B>("metadata"),
    Ignored<B>("service_tier"),
    Ignored<B>("inference_geo"),
    Ignored<B>("cache_control"),
    Ignored<B>("context_management"),
    Ignored<B>("compaction"),
    Ignored<B>("betas"),
    Ignored<B>("speed"),
    Ignored<B>("diagnostics"),
    Ignored<B>("fallbacks"),
    Ignored<B>("fallback_credit_token"),
    Ignored<B>("billing_policy"),
    Ignored<B>("user_profile_id"),
    Ignored<B>("workspace_id"),
    Ignored<B>("mcp_servers", LeaveOutServers),
    Refused<B>("container", "no code is run, and there are no skills"),
    Refused<B>("thread", "nothing is stored; send all messages"),
};

}  // namespace

std::span<const GenerationTable> MessagesFields() {
  static const GenerationTable kTables[] = {GenerationTable(kMessagesFields), kSamplingFields, kServingFields};
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
