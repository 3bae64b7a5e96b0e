// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/generation_body.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/chat_tools.h"

namespace dunlin::server {
namespace {

using text::GrammarKind;
using V = JsonValue;
using B = GenerationBody;

// A schema as an object, or as its JSON text.
std::string SchemaText(const JsonValue& value) {
  if (value.is_string()) return value.Text();
  return value.ExpectObject() ? DumpJson(value.json()) : std::string();
}

void SetSchema(const V& v, B* b) {
  SetConstraint(v, {GrammarKind::kJsonSchema, SchemaText(v), {}}, b);
}
void SetRegex(const V& v, B* b) {
  SetConstraint(v, {GrammarKind::kRegex, v.Text(), {}}, b);
}
void SetChoice(const V& v, B* b) {
  SetConstraint(v, {GrammarKind::kChoice, {}, v.Texts()}, b);
}
void SetGrammar(const V& v, B* b) {
  SetConstraint(v, {GrammarKind::kGrammar, v.Text(), {}}, b);
}
void SetJsonObject(const V& v, B* b) {
  if (v.Bool()) SetConstraint(v, {GrammarKind::kJsonObject, {}, {}}, b);
}

constexpr GenerationRow kStructuredOutputs[] = {
    Honoured<B>("json", SetSchema),
    Honoured<B>("regex", SetRegex),
    Honoured<B>("choice", SetChoice),
    Honoured<B>("grammar", SetGrammar),
    Honoured<B>("json_object", SetJsonObject),
    Refused<B>("structural_tag", "json, regex, choice and grammar are the constraints"),
};

void ReadResponseFormat(const V& value, B* body) {
  if (!value.ExpectObject()) return;
  const V schema = value.At("json_schema");
  value.IgnoreAllBut("type json_schema");
  if (schema.is_object()) schema.IgnoreAllBut("name description schema strict");
  ReadFormat(value, schema, body);
}

constexpr GenerationRow kStructure[] = {
    Honoured<B>("response_format", ReadResponseFormat),
    Honoured<B>("structured_outputs", [](const V& v, B* b) { ReadFields(v, GenerationTable(kStructuredOutputs), b); }),
    Honoured<B>("guided_json", SetSchema),
    Honoured<B>("guided_regex", SetRegex),
    Honoured<B>("guided_choice", SetChoice),
    Honoured<B>("guided_grammar", SetGrammar),
};

void SetObjectSchema(const V& schema, B* body) {
  if (schema.ExpectObject()) SetConstraint(schema, {GrammarKind::kJsonSchema, DumpJson(schema.json()), {}}, body);
}

// A format is of a text, and a demanded call is none: OpenAI takes both, and instructor sends both.
void LeaveOutFormat(GenerationBody* body) {
  const ClientToolChoice::Mode mode = body->request->tool_choice.mode;
  const bool demands_call = mode == ClientToolChoice::Mode::kRequired || mode == ClientToolChoice::Mode::kNamed;
  if (body->format.empty() || !demands_call || body->strict) return;
  body->request->structured_output.reset();
  body->request->ignored.Add(body->format);
}

}  // namespace

const GenerationTable kStructureFields(kStructure);

void ExpectVerbosity(const JsonValue& value) {
  const std::string name = value.Text();
  if (name != "low" && name != "medium" && name != "high")
    value.FailName("verbosity", "\"low\", \"medium\" or \"high\"");
}

void SetConstraint(const JsonValue& value, text::GrammarSource source, GenerationBody* body) {
  if (body->request->structured_output.has_value()) value.Fail("is a second constraint of the output", "one");
  body->request->structured_output = std::move(source);
}

void ReadFormat(const JsonValue& format, const JsonValue& schema_parent, GenerationBody* body) {
  const JsonValue type = format.At("type");
  const std::string name = type.Text();
  if (name == "text" || !type.ok()) return;
  body->format = format.Path();
  const JsonValue beside = format.At("schema");  // as llama.cpp and Together have it
  if (name == "json_object" && beside.is_null()) {
    return SetConstraint(type, {GrammarKind::kJsonObject, {}, {}}, body);
  }
  if (name == "json_object") return SetObjectSchema(beside, body);
  if (name != "json_schema") return type.FailName("type", "\"text\", \"json_object\" or \"json_schema\"");
  if (!schema_parent.ExpectObject()) return;
  SetObjectSchema(schema_parent.At("schema"), body);
}

void SetTemplateOption(const JsonValue& value, const std::string& name, const Json& option, GenerationBody* body) {
  if (body->template_options.contains(name)) {
    return value.Fail(absl::StrCat("gives the chat template's variable ", name, " twice"), "once");
  }
  body->template_options[name] = option;
}

absl::Status ReadGenerationBody(std::string_view text, std::span<const GenerationTable> tables, GenerationBody* body) {
  absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  const JsonValue root(*json, &status, body->strict ? nullptr : &body->request->ignored);
  ReadFields(root, tables, body);
  SettleTools(root, body);
  LeaveOutFormat(body);
  for (const std::string_view name : body->echoed_names) {
    const JsonValue value = root.At(name);
    if (!value.is_null()) body->echoed[std::string(name)] = value.json();
  }
  if (body->stream) return status;
  const JsonValue options = root.At("stream_options");
  if (!options.is_null()) options.Fail("is given without stream", "requests with \"stream\": true");
  return status;
}

void FinishChat(GenerationBody* body) {
  text::ChatInput& chat = body->chat;
  if (body->system.has_value()) chat.messages.insert(chat.messages.begin(), *std::exchange(body->system, std::nullopt));
  chat.moves_system_messages = true;
  chat.add_generation_prompt = body->add_generation_prompt.value_or(!chat.continue_final_message);
  if (!body->template_options.empty()) chat.template_options_json = DumpJson(body->template_options);
  if (body->logprobs) body->request->output.logprobs = body->top_logprobs.value_or(0);
  body->request->prompt = std::move(chat);
}

}  // namespace dunlin::server
