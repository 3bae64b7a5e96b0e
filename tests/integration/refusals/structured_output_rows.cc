// SPDX-License-Identifier: Apache-2.0
// Structured output: bounds of the fields, JSON schemas.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

constexpr char kConfig[] = "attack.json";
constexpr char kSchemaField[] = "structured_output.json_schema";
constexpr char kChoiceField[] = "structured_output.choice.texts";

Sent Schema(const std::string& schema) {
  return Constrained("json_schema", schema);
}

Sent Choice(const std::string& texts) {
  return Generate(absl::StrCat("structured_output { choice { ", texts, " } }"));
}

Answer Malformed(const std::string& rest) {
  return BadGrammar("GRAMMAR_INVALID", kSchemaField, rest);
}

Answer Unsupported(const std::string& rest) {
  return BadGrammar("GRAMMAR_UNSUPPORTED", kSchemaField, rest);
}

Answer TooComplex(const std::string& rest) {
  return BadGrammar("GRAMMAR_TOO_COMPLEX", kSchemaField, rest);
}

std::string Nested(int depth) {
  return absl::StrCat(Times(depth, R"({"items":)"), "true", Times(depth, "}"));
}

// `count` members of an object or elements of a list: '#' stands for their number.
std::string Numbered(int count, const std::string& before, const std::string& behind) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, i == 0 ? "" : ",", before, i, behind);
  return all;
}

}  // namespace

Group StructuredOutputRows() {
  return {
      "StructuredOutputs",
      kConfig,
      {
          {"schema empty", Schema(""), Invalid(kSchemaField, "has 0 bytes; limit is 1 to 262144")},
          {"schema long", Schema(Times(262145, " ")), Invalid(kSchemaField, "has 262145 bytes; limit is 1 to 262144")},
          {"schema of megabytes", Schema(Times(4000000, "[")),
           Invalid(kSchemaField, "has 4000000 bytes; limit is 1 to 262144")},
          {"regex empty", Constrained("regex", ""),
           Invalid("structured_output.regex", "has 0 bytes; limit is 1 to 16384")},
          {"regex long", Constrained("regex", Times(16385, "a")),
           Invalid("structured_output.regex", "has 16385 bytes; limit is 1 to 16384")},
          {"grammar empty", Constrained("grammar", ""),
           Invalid("structured_output.grammar", "has 0 bytes; limit is 1 to 262144")},
          {"grammar long", Constrained("grammar", Times(262145, "a")),
           Invalid("structured_output.grammar", "has 262145 bytes; limit is 1 to 262144")},
          {"choice of nothing", Choice(""), Invalid(kChoiceField, "has 0 entries; limit is 1 or more")},
          {"choice entries", Choice(Times(1025, "texts: 'x' ")),
           Invalid(kChoiceField, "has 1025 entries; limit is 1024")},
          {"choice flood", Choice(Times(500000, "texts: 'x' ")),
           Invalid(kChoiceField, "has 500000 entries; limit is 1024")},
          {"choice of an empty text", Choice("texts: 'x' texts: ''"),
           Invalid(absl::StrCat(kChoiceField, "[1]"), "has 0 bytes; limit is 1 to 65536")},
          {"choice of a long text", Choice(absl::StrCat("texts: '", Times(65537, "x"), "'")),
           Invalid(absl::StrCat(kChoiceField, "[0]"), "has 65537 bytes; limit is 1 to 65536")},
          {"choice of long texts", Choice(Times(2, absl::StrCat("texts: '", Times(40000, "x"), "' "))),
           Invalid(kChoiceField, "has 80000 bytes; limit is 1 to 65536")},
          {"without a tokenizer",
           Generate("model: 'bare' token_ids { ids: 1 } structured_output { json_object: true }"),
           Refused(grpc::StatusCode::FAILED_PRECONDITION, "NO_TOKENIZER",
                   "the model has no tokenizer; structured output needs one")},
          {"no constraint", Generate("structured_output {}"), Ok()},
          {"an object that is not asked for", Generate("structured_output { json_object: false }"), Ok()},
          {"as many choices as allowed", Choice(Times(1024, "texts: 'x' ")), Ok()},
      }};
}

Group SchemaRows() {
  return {
      "Schemas",
      kConfig,
      {
          {"not JSON", Schema("{"), Malformed("?")},
          {"a list", Schema("[1]"), Malformed("?")},
          {"a number", Schema("7"), Malformed("?")},
          {"nothing matches", Schema("false"), Malformed("?")},
          {"a type that is none", Schema(R"({"type": "text"})"), Malformed("?")},
          {"an empty enum", Schema(R"({"enum": []})"), Malformed("?")},
          {"a negative count", Schema(R"({"type": "array", "minItems": -1})"), Malformed("?")},
          {"a reference to nothing", Schema(R"({"$ref": "#/$defs/nothing"})"), Malformed("?")},
          {"a reference to itself", Schema(R"({"$ref": "#"})"), Malformed("?")},
          {"a recursion without end",
           Schema(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"), Malformed("?")},
          {"a reference to another server", Schema(R"({"$ref": "http://127.0.0.1:1/schema.json"})"), Unsupported("?")},
          {"a reference to a file", Schema(R"({"$ref": "file:///etc/passwd"})"), Unsupported("?")},
          {"not", Schema(R"({"not": {"type": "string"}})"), Unsupported("?")},
          {"if", Schema(R"({"properties": {"a": {"if": {}, "then": {}}}})"), Unsupported("?")},
          {"an unknown keyword", Schema(R"({"tpye": "string"})"), Unsupported("?")},
          {"a keyword of a kilobyte", Schema(absl::StrCat("{\"", Times(1000, "k"), "\": 1}")), Unsupported("?")},
          {"an unknown draft", Schema(R"({"$schema": "http://json-schema.org/draft-03/schema#"})"), Unsupported("?")},
          {"an unknown format", Schema(R"({"type": "string", "format": "phone"})"), Unsupported("?")},
          {"unique items", Schema(R"({"type": "array", "uniqueItems": true})"), Unsupported("?")},
          {"multiples of a half", Schema(R"({"type": "number", "multipleOf": 0.5})"), Unsupported("?")},
          {"multiples of zero", Schema(R"({"type": "integer", "multipleOf": 0})"), Unsupported("?")},
          {"a huge bound", Schema(R"({"type": "number", "maximum": 1e308})"), Unsupported("?")},
          {"a pattern that looks ahead", Schema(R"({"type": "string", "pattern": "(?=a)b"})"), Unsupported("?")},
          {"a pattern of 17 KB", Schema(absl::StrCat(R"({"type": "string", "pattern": ")", Times(17000, "a"), "\"}")),
           Unsupported("?")},
          {"patterns that overlap",
           Schema(
               R"({"type": "object", "patternProperties": {"^a": true, "^ab": true}, "additionalProperties": false})"),
           Unsupported("?")},
          {"nested deeper than allowed", Schema(Nested(65)), TooComplex("?")},
          {"nested twenty thousand deep", Schema(Nested(20000)), Malformed("?")},
          {"a hundred thousand lists",
           Schema(absl::StrCat(R"({"const": )", Times(100000, "["), Times(100000, "]"), "}")), Malformed("?")},
          {"strings of a length", Schema(R"({"type": "string", "maxLength": 10001})"), TooComplex("?")},
          {"lists of a length", Schema(R"({"type": "array", "minItems": 2000000000})"), TooComplex("?")},
          {"many properties",
           Schema(absl::StrCat(R"({"type": "object", "properties": {)", Numbered(1025, "\"p", "\": true"), "}}")),
           TooComplex("?")},
          {"many schemas", Schema(absl::StrCat(R"({"anyOf": [)", Numbered(4001, R"({"const": )", "}"), "]}")),
           TooComplex("?")},
          {"schemas that multiply",
           Schema(
               R"({"minItems": 1000, "maxItems": 1024, "items": {"minItems": 1000, "items": {"type": "array", "minItems": 1000}}})"),
           TooComplex("?")},
          {"patterns that are combined",
           Schema(absl::StrCat(R"({"allOf": [)", Numbered(9, R"({"type": "string", "pattern": ")", ".*x\"}"), "]}")),
           TooComplex("?")},
          {"a pattern that explodes elsewhere", Schema(R"({"type": "string", "pattern": "^(a+)+$"})"), Ok()},
          {"a schema after those that are refused", Schema(R"({"type": "array", "items": {"$ref": "#"}})"), Ok()},
      }};
}

}  // namespace dunlin::integration
