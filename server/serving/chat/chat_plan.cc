// SPDX-License-Identifier: Apache-2.0
#include "server/serving/chat/chat_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/request/field_checks.h"
#include "server/serving/chat/check_chat.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "text/chat_output/call_grammar.h"

namespace dunlin::server {
namespace {

using engine::Violation;
using C = ClientField;
using Mode = ClientToolChoice::Mode;

constexpr size_t kPromptEndBytes = 4096;  // what is kept of a prompt: more than a message's header

std::string_view PromptEnd(std::string_view prompt) {
  return prompt.substr(prompt.size() - std::min(prompt.size(), kPromptEndBytes));
}

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  });
}

const char* NameOf(Mode mode) {
  return mode == Mode::kRequired ? "is required" : "names a tool";
}

// The tools of a grammar.
std::optional<Violation> CheckTools(const std::string& tools_json, const text::ToolSet& tools) {
  if (auto v = engine::CheckCount(C::kChatTools, tools.tools().size(), kMaxGrammarTools)) return v;
  if (tools_json.size() > kMaxToolsJsonBytes) {
    return Violation::Against(C::kToolChoice, C::kChatTools,
                              absl::StrCat("has ", tools_json.size(), " bytes, which * makes a grammar"),
                              absl::StrCat(kMaxToolsJsonBytes, " bytes"));
  }
  for (const text::ToolSet::Tool& tool : tools.tools()) {
    if (tools.Find(tool.name) != &tool) {
      return Violation::Of(C::kChatTools, absl::StrCat("has two functions named ", QuotedWord(tool.name)), "one");
    }
    if (IsToolName(tool.name)) continue;
    return Violation::Of(C::kChatTools, absl::StrCat("has a function named ", QuotedWord(tool.name)),
                         absl::StrCat("names of 1 to ", kMaxToolNameBytes, " letters, digits, '_', '.' or '-'"));
  }
  return std::nullopt;
}

std::optional<Violation> CheckDemandedCall(const ServedModel& model, const ClientRequest& client) {
  const ClientToolChoice& choice = client.tool_choice;
  const auto* chat = std::get_if<text::ChatInput>(&client.prompt);
  if (chat == nullptr) return Violation::Of(C::kToolChoice, NameOf(choice.mode), "a chat with tools");
  if (client.structured_output.has_value()) {
    return Violation::Against(C::kStructuredOutput, C::kToolChoice, absl::StrCat(NameOf(choice.mode), " beside *"),
                              "one of the two");
  }
  if (auto v = CheckChat(*chat)) return v;
  const text::ToolSet tools = text::ToolSet::Parse(chat->tools_json);
  if (tools.empty()) {
    return Violation::Against(C::kChatTools, C::kToolChoice, absl::StrCat(NameOf(choice.mode), " without *"),
                              "a chat with tools");
  }
  if (model.chat_forms.calls == nullptr || model.chat_forms.calls->grammar == nullptr) {
    return Violation::Of(C::kToolChoice, NameOf(choice.mode),
                         "auto or none: the form of this model's tool calls is not known (models[].tool_parser)");
  }
  if (choice.mode == Mode::kNamed && tools.Find(choice.name) == nullptr) {
    return Violation::Against(C::kChatTools, C::kToolChoiceName,
                              absl::StrCat("is ", QuotedWord(choice.name), ", which * does not have"),
                              "the name of one of the tools");
  }
  return CheckTools(chat->tools_json, tools);
}

bool DemandsCall(const ClientToolChoice& choice) {
  return choice.mode == Mode::kRequired || choice.mode == Mode::kNamed;
}

// What of the model's forms an output of this chat can have.
text::ChatOutputForms FormsOf(const ServedModel& model, const text::ToolSet& tools) {
  text::ChatOutputForms forms = model.chat_forms;
  if (tools.empty()) forms.calls = nullptr;
  return forms;
}

text::CallGrammar GrammarOf(const ServedModel& model, const text::ToolSet& tools, const ClientToolChoice& choice) {
  text::CallGrammar grammar;
  grammar.several = choice.parallel;
  grammar.tokenizer = model.tokenizer.get();
  for (const text::ToolSet::Tool& tool : tools.tools()) {
    if (choice.mode != Mode::kNamed || tool.name == choice.name) grammar.tools.push_back(&tool);
  }
  return grammar;
}

void AddSpecial(std::span<const std::string_view> tokens, const text::Tokenizer& tokenizer,
                std::vector<engine::TokenId>* ids) {
  for (const std::string_view token : tokens) {
    const std::optional<engine::TokenId> id = tokenizer.TokenToId(token);
    if (id.has_value() && tokenizer.IsSpecial(*id)) ids->push_back(*id);
  }
}

}  // namespace

absl::Status SettleToolChoice(const ServedModel& model, ClientRequest* client) {
  if (DemandsCall(client->tool_choice)) {
    const std::optional<Violation> violation = CheckDemandedCall(model, *client);
    if (violation.has_value()) return InvalidField(*violation, *client->field_names);
  }
  auto* chat = std::get_if<text::ChatInput>(&client->prompt);
  if (chat != nullptr && client->tool_choice.mode == Mode::kNone) chat->tools_json.clear();
  return absl::OkStatus();
}

std::optional<ChatOutput::Options> PlanChatOutput(const ServedModel& model, const ClientRequest& client,
                                                  std::string_view prompt, size_t max_message_bytes) {
  const auto* chat = std::get_if<text::ChatInput>(&client.prompt);
  if (chat == nullptr || client.output.omit_text || client.output.raw_chat) return std::nullopt;
  auto tools = std::make_shared<const text::ToolSet>(text::ToolSet::Parse(chat->tools_json));
  ChatOutput::Options options;
  options.forms = FormsOf(model, *tools);
  if (options.forms.reasoning == nullptr && options.forms.calls == nullptr) return std::nullopt;
  options.tools = std::move(tools);
  options.parallel = client.tool_choice.parallel;
  options.prompt_end = PromptEnd(prompt);
  // A call that is text in the end goes out in one message.
  options.max_call_bytes = std::min(text::kMaxCallBytes, max_message_bytes / 2);
  if (options.forms.calls != nullptr) {
    AddSpecial(options.forms.calls->tokens, *model.tokenizer, &options.special_tokens);
  }
  if (options.forms.reasoning != nullptr) {
    AddSpecial(options.forms.reasoning->tokens, *model.tokenizer, &options.special_tokens);
  }
  std::sort(options.special_tokens.begin(), options.special_tokens.end());
  return options;
}

absl::Status SettleConstraint(const ServedModel& model, std::string_view prompt, ClientRequest* client) {
  const auto* chat = std::get_if<text::ChatInput>(&client->prompt);
  if (chat == nullptr) return absl::OkStatus();
  const std::string_view end = PromptEnd(prompt);
  if (DemandsCall(client->tool_choice)) {
    const text::ToolSet tools = text::ToolSet::Parse(chat->tools_json);
    absl::StatusOr<text::GrammarSource> calls =
        text::ToolCallGrammar(model.chat_forms, GrammarOf(model, tools, client->tool_choice), end);
    if (!calls.ok()) return GrammarRefused(calls.status(), C::kChatTools, *client->field_names);
    client->structured_output = *std::move(calls);
    return absl::OkStatus();
  }
  if (!client->structured_output.has_value()) return absl::OkStatus();
  client->structured_output = text::AfterReasoning(*std::move(client->structured_output), model.chat_forms.reasoning,
                                                   model.tokenizer.get(), end);
  return absl::OkStatus();
}

}  // namespace dunlin::server
