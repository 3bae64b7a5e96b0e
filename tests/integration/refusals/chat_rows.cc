// SPDX-License-Identifier: Apache-2.0
// Chats: messages, tools and options; templates that loop, recurse and grow (chat_attacks.jinja).
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

constexpr char kHello[] = "messages { role: 'user' content: 'hi' } ";

// One message with these fields.
Sent Message(const std::string& text) {
  return Chat(absl::StrCat("chat { messages { ", text, " } }"));
}

// A chat with one message and these fields.
Sent With(const std::string& text) {
  return Chat(absl::StrCat("chat { ", kHello, text, " }"));
}

Answer TooManySteps() {
  return Invalid("chat", "takes more steps of its template than 4000000; limit is 4000000");
}

Answer TextTooLarge(int line) {
  return Invalid("chat", absl::StrCat("fails in the model's chat template, line ", line,
                                      ": invalid operation: a text of more than 16777216 bytes; limit is 16777216"));
}

std::string Nested(int depth) {
  return absl::StrCat(Times(depth, "["), Times(depth, "]"));
}

}  // namespace

Group ChatRows() {
  return {
      "Chats",
      kAttackConfig,
      {
          {"no messages", Chat("chat {}"), Invalid("chat.messages", "has 0 entries; limit is 1 or more")},
          {"messages flood", Chat(absl::StrCat("chat { ", Times(4097, "messages { role: 'user' content: 'x' } "), "}")),
           Invalid("chat.messages", "has 4097 entries; limit is 4096")},
          {"a hundred thousand empty messages", Chat(absl::StrCat("chat { ", Times(100000, "messages {} "), "}")),
           Invalid("chat.messages", "has 100000 entries; limit is 4096")},
          {"a message of nothing", Chat("chat { messages {} }"), Invalid("chat", "has 0 bytes; limit is 1 to 4194304")},
          {"role empty", Message("content: 'x'"),
           Invalid("chat.messages[0].role", "is \"\"; limit is 1 to 64 letters, digits, '_', '-' or '.'")},
          {"role with a line break", Message("role: 'us\\ner'"),
           Invalid("chat.messages[0].role", "is \"us\\ner\"; limit is 1 to 64 letters, digits, '_', '-' or '.'")},
          {"role as a special token", Message("role: '<|endoftext|>'"),
           Invalid("chat.messages[0].role", "is \"<|endoftext|>\"; limit is 1 to 64 letters, digits, '_', '-' or '.'")},
          {"role long", Message(absl::StrCat("role: '", Times(65, "r"), "'")),
           Invalid("chat.messages[0].role",
                   absl::StrCat("is \"", Times(32, "r"), "\"; limit is 1 to 64 letters, digits, '_', '-' or '.'"))},
          {"content besides parts", Message("role: 'user' content: 'x' parts { type: 'text' text: 'y' }"),
           Invalid("chat.messages[0].content", "is given besides parts; limit is one of the two")},
          {"parts flood", Message(absl::StrCat("role: 'user' ", Times(1025, "parts { type: 'text' text: 'y' } "))),
           Invalid("chat.messages[0].parts", "has 1025 entries; limit is 1024")},
          {"an image", Message("role: 'user' parts { type: 'text' text: 'y' } parts { type: 'image_url' }"),
           Invalid("chat.messages[0].parts[1].type",
                   "is \"image_url\"; limit is \"text\", or \"image\" where the model sees images")},
          {"an image without bytes", Message("role: 'user' parts { type: 'image' }"),
           Invalid("chat.messages[0].parts[0].image", "is empty; limit is the file of an image, of type \"image\"")},
          {"a text with bytes", Message("role: 'user' parts { type: 'text' text: 'y' image: 'z' }"),
           Invalid("chat.messages[0].parts[0].image",
                   "is given with a text; limit is the file of an image, of type \"image\"")},
          {"an image for a model of text", Message("role: 'user' parts { type: 'image' image: 'GIF89a' }"),
           Invalid("chat.messages[0].parts[0].image", "is an image; limit is texts: it is a model of text alone")},
          {"a part without a type", Message("role: 'user' parts { text: 'y' }"),
           Invalid("chat.messages[0].parts[0].type",
                   "is \"\"; limit is \"text\", or \"image\" where the model sees images")},
          {"tool calls flood", Message(absl::StrCat("role: 'assistant' ", Times(257, "tool_calls { name: 'f' } "))),
           Invalid("chat.messages[0].tool_calls", "has 257 entries; limit is 256")},
          {"a tool call without a name", Message("role: 'assistant' tool_calls { name: 'f' } tool_calls { id: '1' }"),
           Invalid("chat.messages[0].tool_calls[1].name", "is empty; limit is the name of a function")},
          {"arguments that are not JSON", Message("role: 'assistant' tool_calls { name: 'f' arguments_json: '{' }"),
           Invalid("chat.messages[0].tool_calls[0].arguments_json", "is not JSON")},
          {"arguments that are a list", Message("role: 'assistant' tool_calls { name: 'f' arguments_json: '[1]' }"),
           Invalid("chat.messages[0].tool_calls[0].arguments_json", "is a JSON array; limit is an object")},
          {"arguments nested deeply",
           Message(absl::StrCat("role: 'assistant' tool_calls { name: 'f' arguments_json: '", Nested(100000), "' }")),
           Invalid("chat.messages[0].tool_calls[0].arguments_json", "is nested deeper than 64; limit is 64")},
          {"extra fields that are not JSON", Message("role: 'user' extra_fields_json: 'x'"),
           Invalid("chat.messages[0].extra_fields_json", "is not JSON")},
          {"extra fields that are a number", Message("role: 'user' extra_fields_json: '7'"),
           Invalid("chat.messages[0].extra_fields_json", "is a JSON number; limit is an object")},
          {"extra fields that replace the role", Message("role: 'user' extra_fields_json: '{\"role\": \"system\"}'"),
           Invalid("chat.messages[0].extra_fields_json", "has \"role\"; limit is names without a field of their own")},
          {"extra fields nested deeply", Message(absl::StrCat("role: 'user' extra_fields_json: '", Nested(65), "'")),
           Invalid("chat.messages[0].extra_fields_json", "is nested deeper than 64; limit is 64")},
      }};
}

Group ChatOptionRows() {
  return {
      "ChatOptions",
      kAttackConfig,
      {
          {"tools that are not JSON", With("tools_json: '[{]'"), Invalid("chat.tools_json", "is not JSON")},
          {"tools that are an object", With("tools_json: '{}'"),
           Invalid("chat.tools_json", "is not a JSON list of objects; limit is a list of function definitions")},
          {"tools that are numbers", With("tools_json: '[1]'"),
           Invalid("chat.tools_json", "is not a JSON list of objects; limit is a list of function definitions")},
          {"tools flood", With(absl::StrCat("tools_json: '[{}", Times(1024, ",{}"), "]'")),
           Invalid("chat.tools_json", "has 1025 entries; limit is 1024")},
          {"tools nested deeply", With(absl::StrCat("tools_json: '", Nested(1000000), "'")),
           Invalid("chat.tools_json", "is nested deeper than 64; limit is 64")},
          {"options that are not JSON", With("template_options_json: 'true'"),
           Invalid("chat.template_options_json", "is a JSON boolean; limit is an object")},
          {"options nested deeply", With(absl::StrCat("template_options_json: '{\"a\": ", Nested(64), "}'")),
           Invalid("chat.template_options_json", "is nested deeper than 64; limit is 64")},
          {"options that replace the messages", With("template_options_json: '{\"messages\": []}'"),
           Invalid("chat", "has a template option \"messages\", which has a field of its own")},
          {"options that are named as arguments of Python",
           With("template_options_json: '{\"chat_template\": \"{{ 1 }}\", \"tokenize\": true, \"return_dict\": true}'"),
           Ok()},
          {"continue and begin an answer", With("continue_final_message: true add_generation_prompt: true"),
           Invalid("chat.continue_final_message", "excludes chat.add_generation_prompt; limit is one of the two")},
          {"continue a message without content",
           Chat("chat { messages { role: 'assistant' } continue_final_message: true }"),
           Invalid("chat", "sets continue_final_message, but its last message has no text content")},
          {"special tokens that the server does not allow", With("parse_special_tokens: true"),
           Invalid("chat.parse_special_tokens", "is true; limit is false (models[].chat_special_tokens)")},
          {"a model with a broken template", Generate(absl::StrCat("model: 'broken template' chat { ", kHello, "}")),
           Refused(kPrecondition, "CHAT_UNSUPPORTED",
                   "the model takes no chats: its chat template is of no use: chat template, line 1: unexpected end of "
                   "block; correct it, or set models[].chat_template")},
          {"a model without a tokenizer", Generate(absl::StrCat("model: 'bare' chat { ", kHello, "}")),
           Refused(kPrecondition, "NO_TOKENIZER", "the model has no tokenizer; it takes token_ids only")},
          {"a chat over the context",
           Chat(absl::StrCat("chat { messages { role: 'user' content: '", Times(1000000, "a b "), "' } }")),
           Invalid(
               "chat",
               "has more than 2046 tokens; limit is 1023, one less than the context (models[].max_context_tokens)")},
          {"a chat that is served", With(""), Ok()},
      }};
}

Group TemplateRows() {
  return {
      "Templates",
      kAttackConfig,
      {
          {"loops", ChatWithOptions(R"({"attack": "endless"})"), TooManySteps()},
          {"a range of a billion", ChatWithOptions(R"({"attack": "range"})"),
           Invalid(
               "chat",
               "fails in the model's chat template, line 3: invalid operation: a range of more than 100000 elements")},
          {"a macro that calls itself", ChatWithOptions(R"({"attack": "recursion"})"),
           Invalid("chat", "fails in the model's chat template, line 1: invalid operation: nested deeper than 100")},
          {"a recursive loop", ChatWithOptions(R"({"attack": "loop recursion"})"),
           Invalid("chat", "fails in the model's chat template, line 5: invalid operation: nested deeper than 100")},
          {"a text that doubles", ChatWithOptions(R"({"attack": "doubling"})"), TextTooLarge(6)},
          {"a text times a billion", ChatWithOptions(R"({"attack": "multiplication"})"), TooManySteps()},
          {"a prompt of megabytes", ChatWithOptions(R"({"attack": "long prompt"})"),
           Invalid("chat", "makes a prompt of more than 4194304 bytes; limit is 4194304")},
          {"replacements that grow", ChatWithOptions(R"({"attack": "replace"})"), TextTooLarge(9)},
          {"an exception of the template", ChatWithOptions(R"({"attack": "raise"})"),
           Refused(grpc::StatusCode::INVALID_ARGUMENT, "CHAT_REFUSED",
                   "chat is refused by the model's chat template: no birds here")},
          {"an undefined variable", ChatWithOptions(R"({"attack": "undefined"})"),
           Invalid("chat", "fails in the model's chat template, line 11: undefined value")},
          {"attributes of Python", ChatWithOptions(R"({"attack": "attributes"})"),
           Invalid("chat", "fails in the model's chat template, line 12: undefined value")},
          {"a method that is not there", ChatWithOptions(R"({"attack": "method"})"),
           Invalid(
               "chat",
               "fails in the model's chat template, line 13: unknown method: string has no method named format_map")},
          {"a filter that is not there", ChatWithOptions(R"({"attack": "filter"})"),
           Invalid("chat", "fails in the model's chat template, line 14: unknown filter: filter nobody is unknown")},
          {"a division by zero", ChatWithOptions(R"({"attack": "division"})"),
           Invalid("chat", "fails in the model's chat template, line 15: invalid operation")},
      }};
}

}  // namespace dunlin::integration
