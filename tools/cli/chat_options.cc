// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/chat_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/cli/chat_messages.h"
#include "tools/cli/client_options.h"

namespace dunlin::cli {
namespace {

v1::ToolChoice ChoiceNamed(const std::string& word) {
  v1::ToolChoice choice;
  if (word == "auto") {
    choice.set_mode(v1::ToolChoice::MODE_AUTO);
  } else if (word == "none") {
    choice.set_mode(v1::ToolChoice::MODE_NONE);
  } else if (word == "required") {
    choice.set_mode(v1::ToolChoice::MODE_REQUIRED);
  } else {
    choice.set_mode(v1::ToolChoice::MODE_NAMED);
    choice.set_name(word);
  }
  return choice;
}

}  // namespace

void AddChatOptions(CLI::App* subcommand, ChatOptions* options) {
  const char* group = "Chat";
  subcommand
      ->add_option("--messages", options->messages,
                   "Begin with these messages: a JSON list of {role, content, tool_calls, ...}, or @FILE")
      ->group(group);
  CLI::Option* tools =
      subcommand
          ->add_option("--tools", options->tools,
                       "Functions that the model may call: JSON or @FILE. '[{\"type\": \"function\", \"function\": "
                       "{\"name\": \"get_weather\", \"parameters\": {\"type\": \"object\"}}}]'")
          ->group(group);
  subcommand
      ->add_option("--tool-choice", options->tool_choice,
                   "auto: the model decides; none; required: at least one call; or the NAME of the tool to call")
      ->needs(tools)
      ->group(group);
  subcommand
      ->add_flag("--no-parallel-tool-calls", options->no_parallel_tool_calls, "At most one tool call in an output")
      ->needs(tools)
      ->group(group);
  subcommand
      ->add_option("--template-options", options->template_options,
                   "A JSON object of variables of the chat template, or @FILE: {\"enable_thinking\": false}")
      ->group(group);
  subcommand
      ->add_flag("--raw-chat-output", options->raw_chat_output,
                 "Leave reasoning and tool calls in the text, as the model writes them")
      ->group(group);
}

absl::StatusOr<v1::Chat> MakeChat(const ChatOptions& options) {
  v1::Chat chat;
  absl::StatusOr<std::string> messages = TextOrFile("--messages", options.messages);
  absl::StatusOr<std::string> tools = TextOrFile("--tools", options.tools);
  absl::StatusOr<std::string> template_options = TextOrFile("--template-options", options.template_options);
  for (const absl::StatusOr<std::string>* text : {&messages, &tools, &template_options}) {
    if (!text->ok()) return text->status();
  }
  if (!options.messages.empty()) {
    if (absl::Status s = AddMessages(*messages, &chat); !s.ok()) return s;
  }
  chat.set_tools_json(*std::move(tools));
  chat.set_template_options_json(*std::move(template_options));
  if (!options.tool_choice.empty()) *chat.mutable_tool_choice() = ChoiceNamed(options.tool_choice);
  if (options.no_parallel_tool_calls) chat.set_parallel_tool_calls(false);
  return chat;
}

absl::Status CheckConstraints(const ChatOptions& chat, const StructuredOptions& structured) {
  const bool choice_constrains = !chat.tool_choice.empty() && chat.tool_choice != "auto" && chat.tool_choice != "none";
  if (!choice_constrains || !structured.any()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("both --tool-choice ", chat.tool_choice, " and ", structured.name(),
                                                 " constrain the output: give one of them, or --tool-choice auto"));
}

}  // namespace dunlin::cli
