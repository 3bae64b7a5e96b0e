// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/responses_input.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/chat_tools.h"

namespace dunlin::server {
namespace {

using text::ChatMessage;
using V = JsonValue;
using B = GenerationBody;

constexpr std::string_view kPartTypes = "input_text output_text text input_image";

// What the items of an input become, one after another. Items of tools that ran elsewhere, and whatever else is no text
// of the conversation, are left out.
class InputReader {
 public:
  explicit InputReader(B* body) : body_(body) {}

  void Read(const V& item) {
    if (!item.ExpectObject()) return;
    const V type = item.At("type");
    const std::string name = type.is_null() ? "message" : type.Text();
    for (const Row& row : Rows()) {
      if (row.type == name) return (this->*row.read)(item);
    }
    if (!type.ok()) return;
    if (name == "item_reference") return type.FailName("type", "items in full (\"store\": false): nothing is stored");
    item.LeaveOut("type", "\"message\", \"reasoning\", and calls with their outputs");
  }

 private:
  struct Row {
    std::string_view type;
    void (InputReader::*read)(const V& item);
  };
  static std::span<const Row> Rows();

  void ReadMessage(const V& item) {
    item.IgnoreAllBut("type id role content status phase");
    const V role = item.At("role");
    const std::string name = role.Text();
    const bool known = name == "user" || name == "assistant" || name == "system" || name == "developer";
    if (!known) return role.FailName("role", "\"user\", \"assistant\", \"system\" or \"developer\"");
    ChatMessage& message = Append(name == "developer" ? "system" : name);
    ReadContent(item.At("content"), kPartTypes, &message);
  }

  // Of encrypted reasoning, nothing can be read.
  void ReadReasoning(const V& item) {
    item.IgnoreAllBut("type id summary content encrypted_content status");
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
    item.IgnoreAllBut("type id call_id name arguments namespace status caller");
    const V space = item.At("namespace");
    AddCall(item.At("call_id").Text(), item.At("name").Text(), CallArguments(item.At("arguments")));
    if (space.is_null()) return;
    const std::vector<ChatMessage>& messages = body_->chat.messages;
    body_->namespaced_calls.push_back({messages.size() - 1, messages.back().tool_calls.size() - 1, space.Text()});
  }

  void ReadCustomCall(const V& item) {
    item.IgnoreAllBut("type id call_id name input namespace status caller");
    AddCall(item.At("call_id").Text(), item.At("name").Text(), InputArguments(item.At("input")));
  }

  // A call of a tool that OpenAI defines: the arguments are what it was asked to do.
  void ReadActionCall(const V& item, const char* name, const char* arguments) {
    const V action = item.At(arguments);
    if (action.ExpectObject()) AddCall(item.At("call_id").Text(), name, DumpJson(action.json()));
  }
  void ReadLocalShellCall(const V& item) { ReadActionCall(item, "local_shell", "action"); }
  void ReadShellCall(const V& item) { ReadActionCall(item, "shell", "action"); }
  void ReadApplyPatchCall(const V& item) { ReadActionCall(item, "apply_patch", "operation"); }

  void AddCall(std::string id, std::string name, std::string arguments) {
    std::vector<ChatMessage>& messages = body_->chat.messages;
    const bool follows = !messages.empty() && messages.back().role == "assistant" && reasoning_.empty();
    ChatMessage& message = follows ? messages.back() : Append("assistant");
    message.tool_calls.push_back({std::move(id), std::move(name), std::move(arguments)});
  }

  void ReadCallOutput(const V& item) {
    item.IgnoreAllBut("type id call_id output status caller");
    ChatMessage& message = Append("tool");
    message.tool_call_id = item.At("call_id").Text();
    ReadContent(item.At("output"), kPartTypes, &message);
  }

  // Of a tool that OpenAI defines, whose output need not be text. The shell of old names its call in "id".
  void ReadActionOutput(const V& item) {
    const V output = item.At("output");
    const V call_id = item.At("call_id");
    ChatMessage& message = Append("tool");
    message.tool_call_id = (call_id.is_null() ? item.At("id") : call_id).Text();
    message.content = output.is_string() ? output.Text() : DumpJson(output.json());
  }

  ChatMessage& Append(const std::string& role) {
    ChatMessage& message = body_->chat.messages.emplace_back();
    message.role = role;
    if (role == "assistant") message.reasoning_content = std::exchange(reasoning_, {});
    return message;
  }

  B* const body_;
  std::string reasoning_;  // of the assistant's next message
};

std::span<const InputReader::Row> InputReader::Rows() {
  static const Row kRows[] = {
      {"message", &InputReader::ReadMessage},
      {"reasoning", &InputReader::ReadReasoning},
      {"function_call", &InputReader::ReadCall},
      {"function_call_output", &InputReader::ReadCallOutput},
      {"custom_tool_call", &InputReader::ReadCustomCall},
      {"custom_tool_call_output", &InputReader::ReadCallOutput},
      {"local_shell_call", &InputReader::ReadLocalShellCall},
      {"local_shell_call_output", &InputReader::ReadActionOutput},
      {"shell_call", &InputReader::ReadShellCall},
      {"shell_call_output", &InputReader::ReadActionOutput},
      {"apply_patch_call", &InputReader::ReadApplyPatchCall},
      {"apply_patch_call_output", &InputReader::ReadActionOutput},
  };
  return kRows;
}

void AddUserMessage(std::string text, B* body) {
  ChatMessage& message = body->chat.messages.emplace_back();
  message.role = "user";
  message.content = std::move(text);
}

// Without any item, an empty message of the user: templates demand one.
void ReadInput(const V& input, B* body) {
  if (input.is_string()) return AddUserMessage(input.Text(), body);
  if (!input.is_array()) return input.Fail(input.Shown(), "a string or an array of items");
  InputReader reader(body);
  for (size_t i = 0; i < input.size() && input.ok(); ++i) reader.Read(input.At(i));
  if (body->chat.messages.empty()) AddUserMessage("", body);
}

void ReadInstructions(const V& value, B* body) {
  body->system.emplace();
  body->system->role = "system";
  body->system->content = value.Text();
}

// What is there to include in an answer: of the rest, an answer has nothing.
void ReadInclude(const V& value, B* body) {
  constexpr std::string_view kOthers[] = {"reasoning.encrypted_content",           "web_search_call.results",
                                          "web_search_call.action.sources",        "file_search_call.results",
                                          "computer_call_output.output.image_url", "message.input_image.image_url",
                                          "code_interpreter_call.outputs"};
  const std::vector<std::string> names = value.Texts();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "message.output_text.logprobs") {
      body->logprobs = true;
    } else if (std::find(std::begin(kOthers), std::end(kOthers), names[i]) == std::end(kOthers)) {
      value.At(i).Ignore();
    }
  }
}

void ExpectTruncation(const V& value) {
  const std::string name = value.Text();
  if (name != "auto" && name != "disabled") value.FailName("truncation", "\"auto\" or \"disabled\"");
}

constexpr GenerationRow kText[] = {
    Honoured<B>("format",
                [](const V& v, B* b) {
                  if (!v.ExpectObject()) return;
                  v.IgnoreAllBut("type name description schema strict");
                  ReadFormat(v, v, b);
                }),
    Ignored<B>("verbosity", [](const V& v, B*) { ExpectVerbosity(v); }),
};
constexpr GenerationRow kReasoning[] = {
    Honoured<B>("effort", [](const V& v, B* b) { SetTemplateOption(v, "reasoning_effort", v.Text(), b); }),
    Ignored<B>("summary"),
    Ignored<B>("generate_summary"),
    Ignored<B>("context"),
    Ignored<B>("mode"),
};

constexpr FlatToolForm kResponsesToolForm = {"function", "parameters",
                                             "strict defer_loading allowed_callers output_schema"};

constexpr GenerationRow kResponsesFields[] = {
    Honoured<B>("input", ReadInput),
    Honoured<B>("instructions", ReadInstructions),
    Honoured<B>("max_output_tokens", [](const V& v, B* b) { b->request->stopping.max_tokens = v.AtLeast(1); }),
    Honoured<B>("tools", [](const V& v, B* b) { ReadFlatTools(v, kResponsesToolForm, b); }),
    Honoured<B>("tool_choice", ReadToolChoice),
    Honoured<B>("parallel_tool_calls", [](const V& v, B* b) { b->request->tool_choice.parallel = v.Bool(); }),
    Honoured<B>("text", [](const V& v, B* b) { ReadFields(v, GenerationTable(kText), b); }),
    Honoured<B>("reasoning", [](const V& v, B* b) { ReadFields(v, GenerationTable(kReasoning), b); }),
    Honoured<B>("include", ReadInclude),
    Honoured<B>("top_logprobs", [](const V& v, B* b) { b->top_logprobs = v.Int(); }),
    Honoured<B>("stop", [](const V& v, B* b) { b->request->stopping.stop = v.TextOrTexts(); }),
    Honoured<B>("chat_template_kwargs", ReadTemplateOptions),
    Ignored<B>("store", [](const V& v, B*) { v.Bool(); }),
    Ignored<B>("truncation", [](const V& v, B*) { ExpectTruncation(v); }),
    Ignored<B>("metadata"),
    Ignored<B>("client_metadata"),
    Ignored<B>("user"),
    Ignored<B>("safety_identifier"),
    Ignored<B>("service_tier"),
    Ignored<B>("access_programs"),
    Ignored<B>("prompt_cache_key"),
    Ignored<B>("prompt_cache_options"),
    Ignored<B>("prompt_cache_retention"),
    Ignored<B>("max_tool_calls"),
    Ignored<B>("context_management"),
    Ignored<B>("background_options"),
    Ignored<B>("image"),
    Refused<B>("background", "nothing runs after its response", "false"),
    Refused<B>("previous_response_id", "nothing is stored; send the whole input"),
    Refused<B>("conversation", "nothing is stored; send the whole input"),
    Refused<B>("prompt", "no templates of prompts are stored"),
    Refused<B>("moderation", "there is no moderation model"),
};

constexpr std::string_view kEchoed[] = {"instructions", "max_output_tokens",
                                        "metadata",     "parallel_tool_calls",
                                        "reasoning",    "temperature",
                                        "text",         "tool_choice",
                                        "tools",        "top_p",
                                        "top_logprobs"};

}  // namespace

std::span<const GenerationTable> ResponsesFields() {
  static const GenerationTable kTables[] = {GenerationTable(kResponsesFields), kSamplingFields, kServingFields,
                                            kStructureFields, kStreamFields};
  return kTables;
}

std::span<const std::string_view> EchoedResponsesFields() {
  return kEchoed;
}

}  // namespace dunlin::server
