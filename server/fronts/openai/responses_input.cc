// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/responses_input.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/chat_messages.h"

namespace dunlin::server {
namespace {

using engine::ChatMessage;
using V = JsonValue;
using B = GenerationBody;

constexpr std::string_view kTextTypes = "input_text output_text text";

// What the items of an input become, one after another.
class InputReader {
 public:
  explicit InputReader(engine::ChatInput* chat) : chat_(chat) {}

  void Read(const V& item) {
    if (!item.ExpectObject()) return;
    const V type = item.At("type");
    const std::string name = type.is_null() ? "message" : type.Text();
    if (name == "message") return ReadMessage(item);
    if (name == "reasoning") return ReadReasoning(item);
    if (name == "function_call") return ReadCall(item);
    if (name == "function_call_output") return ReadCallOutput(item);
    type.FailName("type", "\"message\", \"reasoning\", \"function_call\" or \"function_call_output\"");
  }

 private:
  void ReadMessage(const V& item) {
    const V role = item.At("role");
    const std::string name = role.Text();
    const bool known = name == "user" || name == "assistant" || name == "system" || name == "developer";
    if (!known) return role.FailName("role", "\"user\", \"assistant\", \"system\" or \"developer\"");
    ChatMessage& message = Append(name == "developer" ? "system" : name);
    ReadContent(item.At("content"), kTextTypes, &message);
  }

  void ReadReasoning(const V& item) {
    const V content = item.At("content");
    const V summary = item.At("summary");
    const V& parts = content.is_array() && content.size() > 0 ? content : summary;
    if (parts.is_null()) return;
    ChatMessage thoughts;
    ReadContent(parts, "reasoning_text summary_text", &thoughts);
    reasoning_ = ContentText(thoughts);
  }

  // Calls belong to the assistant's message before them.
  void ReadCall(const V& item) {
    const bool follows = !chat_->messages.empty() && chat_->messages.back().role == "assistant" && reasoning_.empty();
    ChatMessage& message = follows ? chat_->messages.back() : Append("assistant");
    message.tool_calls.push_back({item.At("call_id").Text(), item.At("name").Text(), item.At("arguments").Text()});
  }

  void ReadCallOutput(const V& item) {
    ChatMessage& message = Append("tool");
    message.tool_call_id = item.At("call_id").Text();
    ReadContent(item.At("output"), kTextTypes, &message);
  }

  ChatMessage& Append(const std::string& role) {
    ChatMessage& message = chat_->messages.emplace_back();
    message.role = role;
    if (role == "assistant") message.reasoning_content = std::exchange(reasoning_, {});
    return message;
  }

  engine::ChatInput* const chat_;
  std::string reasoning_;  // of the assistant's next message
};

void ReadInput(const V& input, B* body) {
  if (input.is_string()) {
    ChatMessage& message = body->chat.messages.emplace_back();
    message.role = "user";
    message.content = input.Text();
    return;
  }
  if (!input.is_array()) return input.Fail(input.Shown(), "a string or an array of items");
  InputReader reader(&body->chat);
  for (size_t i = 0; i < input.size() && input.ok(); ++i) reader.Read(input.At(i));
}

// The first message, wherever the field stands in the body.
void ReadInstructions(const V& value, B* body) {
  ChatMessage message;
  message.role = "system";
  message.content = value.Text();
  body->chat.messages.insert(body->chat.messages.begin(), std::move(message));
}

void ReadInclude(const V& value, B* body) {
  const std::vector<std::string> names = value.Texts();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "message.output_text.logprobs") {
      body->logprobs = true;
    } else if (names[i] != "reasoning.encrypted_content") {
      value.At(i).FailName("name", "\"message.output_text.logprobs\" or \"reasoning.encrypted_content\"");
    }
  }
}

constexpr GenerationRow kText[] = {
    Honoured<B>("format",
                [](const V& v, B* b) {
                  if (v.ExpectObject()) ReadFormat(v, v, b);
                }),
    Refused<B>("verbosity", "\"medium\""),
};
constexpr GenerationRow kReasoning[] = {
    Honoured<B>("effort", [](const V& v, B* b) { SetTemplateOption(v, "reasoning_effort", v.Text(), b); }),
    Ignored<B>("summary"),
    Ignored<B>("generate_summary"),
};

constexpr GenerationRow kFields[] = {
    Honoured<B>("input", ReadInput),
    Honoured<B>("instructions", ReadInstructions),
    Honoured<B>("max_output_tokens", [](const V& v, B* b) { b->request->stopping.max_tokens = v.Int(); }),
    Honoured<B>("tools", [](const V& v, B* b) { ReadFlatTools(v, "function", "parameters", b); }),
    Honoured<B>("tool_choice", ReadToolChoice),
    Honoured<B>("parallel_tool_calls", [](const V& v, B* b) { b->request->tool_choice.parallel = v.Bool(); }),
    Honoured<B>("text", [](const V& v, B* b) { ReadFields(v, GenerationTable(kText), b); }),
    Honoured<B>("reasoning", [](const V& v, B* b) { ReadFields(v, GenerationTable(kReasoning), b); }),
    Honoured<B>("include", ReadInclude),
    Honoured<B>("top_logprobs", [](const V& v, B* b) { b->top_logprobs = v.Int(); }),
    Honoured<B>("stop", [](const V& v, B* b) { b->request->stopping.stop = v.TextOrTexts(); }),
    Honoured<B>("chat_template_kwargs", ReadTemplateOptions),
    Ignored<B>("metadata"),
    Ignored<B>("user"),
    Ignored<B>("safety_identifier"),
    Ignored<B>("service_tier"),
    Ignored<B>("prompt_cache_key"),
    Ignored<B>("prompt_cache_retention"),
    Ignored<B>("max_tool_calls"),
    Refused<B>("store", "false"),
    Refused<B>("background", "false"),
    Refused<B>("truncation", "\"disabled\""),
    Refused<B>("previous_response_id"),
    Refused<B>("conversation"),
    Refused<B>("prompt"),
    Refused<B>("context_management"),
};

constexpr std::string_view kEchoed[] = {"instructions", "max_output_tokens",
                                        "metadata",     "parallel_tool_calls",
                                        "reasoning",    "temperature",
                                        "text",         "tool_choice",
                                        "tools",        "top_p",
                                        "top_logprobs"};

}  // namespace

std::span<const GenerationTable> ResponsesFields() {
  static const GenerationTable kTables[] = {GenerationTable(kFields), kSamplingFields, kServingFields, kStructureFields,
                                            kStreamFields};
  return kTables;
}

std::span<const std::string_view> EchoedResponsesFields() {
  return kEchoed;
}

}  // namespace dunlin::server
