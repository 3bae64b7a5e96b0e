// SPDX-License-Identifier: Apache-2.0
// Structured output: bounds of the fields, JSON schemas.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

constexpr char kSchemaField[] = "structured_output.json_schema";
constexpr char kChoiceField[] = "structured_output.choice.texts";

Sent Schema(const std::string& schema) {
  return Constrained("json_schema", schema);
}

Sent Choice(const std::string& texts) {
  return Generate(absl::StrCat("structured_output { choice { ", texts, " } }"));
}

Answer MalformedSchema(const std::string& rest) {
  return BadGrammar("GRAMMAR_INVALID", kSchemaField, rest);
}

Answer Unsupported(const std::string& rest) {
  return BadGrammar("GRAMMAR_UNSUPPORTED", kSchemaField, rest);
}

Answer TooComplex(const std::string& rest) {
  return BadGrammar("GRAMMAR_TOO_COMPLEX", kSchemaField, rest);
}

std::string NestedItems(int depth) {
  return absl::StrCat(Times(depth, R"({"items":)"), "true", Times(depth, "}"));
}

// Members of an object or elements of a list, each with its number between the two texts.
std::string Numbered(int count, const std::string& before, const std::string& behind) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, i == 0 ? "" : ",", before, i, behind);
  return all;
}

}  // namespace

Group StructuredOutputRows() {
  return {
      "StructuredOutputs",
      kAttackConfig,
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
      kAttackConfig,
      {
          {"not JSON", Schema("{"), MalformedSchema("is not JSON, at line 1 column 1")},
          {"a list", Schema("[1]"), MalformedSchema("has no schema at #")},
          {"a number", Schema("7"), MalformedSchema("has no schema at #")},
          {"nothing matches", Schema("false"),
           MalformedSchema("matches nothing: each value that it allows would need another one inside")},
          {"a type that is none", Schema(R"({"type": "text"})"),
           MalformedSchema("has \"type\" at #, which is not a type or a list of types")},
          {"an empty enum", Schema(R"({"enum": []})"),
           MalformedSchema("has \"enum\" at #, which is not a list of 1 or more values")},
          {"a negative count", Schema(R"({"type": "array", "minItems": -1})"),
           MalformedSchema("has \"minItems\" at #, which is not an integer of 0 or more")},
          {"a reference to nothing", Schema(R"({"$ref": "#/$defs/nothing"})"),
           MalformedSchema("has \"$ref\" at #, which names nothing")},
          {"a reference to itself", Schema(R"({"$ref": "#"})"),
           MalformedSchema("has a \"$ref\" to \"#\" that leads back to itself")},
          {"a recursion without end",
           Schema(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
           MalformedSchema("matches nothing: each value that it allows would need another one inside")},
          {"a reference to another server", Schema(R"({"$ref": "http://127.0.0.1:1/schema.json"})"),
           Unsupported("has \"$ref\" at #, which is not of the form #/...")},
          {"a reference to a file", Schema(R"({"$ref": "file:///etc/passwd"})"),
           Unsupported("has \"$ref\" at #, which is not of the form #/...")},
          {"not", Schema(R"({"not": {"type": "string"}})"), Unsupported("has \"not\" at #, which is not supported")},
          {"if", Schema(R"({"properties": {"a": {"if": {}, "then": {}}}})"),
           Unsupported("has \"if\" at #/properties/a, which is not supported")},
          {"an unknown keyword", Schema(R"({"tpye": "string"})"), Ok()},
          {"a keyword of a kilobyte", Schema(absl::StrCat("{\"", Times(1000, "k"), "\": 1}")), Ok()},
          {"an old draft", Schema(R"({"$schema": "http://json-schema.org/draft-03/schema#"})"),
           Unsupported("has \"$schema\" at #, which is older than draft 04")},
          {"a dialect of somebody's own", Schema(R"({"$schema": "https://example.com/dialect"})"), Ok()},
          {"an unknown format", Schema(R"({"type": "string", "format": "phone"})"), Ok()},
          {"unique items", Schema(R"({"type": "array", "uniqueItems": true})"),
           Unsupported("has \"uniqueItems\" at #, which is not supported")},
          {"multiples of a half", Schema(R"({"type": "number", "multipleOf": 0.5})"),
           Unsupported("has \"multipleOf\" at #, which is no integer from 1 to 10000")},
          {"multiples of zero", Schema(R"({"type": "integer", "multipleOf": 0})"),
           Unsupported("has \"multipleOf\" at #, which is no integer from 1 to 10000")},
          {"a huge bound", Schema(R"({"type": "number", "maximum": 1e308})"),
           Unsupported("has maximum 1e+308 at #; limit is +-9007199254740991")},
          {"a pattern that looks ahead", Schema(R"({"type": "string", "pattern": "(?=a)b"})"),
           Unsupported("has \"pattern\" at #, which has look-ahead")},
          {"a pattern of 17 KB", Schema(absl::StrCat(R"({"type": "string", "pattern": ")", Times(17000, "a"), "\"}")),
           Unsupported("has \"pattern\" at #, which has 17000 bytes; limit is 16384")},
          {"patterns that overlap",
           Schema(
               R"({"type": "object", "patternProperties": {"^a": true, "^ab": true}, "additionalProperties": false})"),
           Unsupported("patternProperty regexes /^a/ and /^ab/ are not disjoint")},
      }};
}

Group SchemaBoundRows() {
  return {
      "SchemaBounds",
      kAttackConfig,
      {
          {"nested deeper than allowed", Schema(NestedItems(65)), TooComplex("nests schemas deeper than 64")},
          {"nested twenty thousand deep", Schema(NestedItems(20000)), TooComplex("nests deeper than 128 values")},
          {"a hundred thousand lists",
           Schema(absl::StrCat(R"({"const": )", Times(100000, "["), Times(100000, "]"), "}")),
           TooComplex("nests deeper than 128 values")},
          {"strings of a length", Schema(R"({"type": "string", "maxLength": 65537})"),
           TooComplex("has maxLength 65537 at #; limit is 65536")},
          {"lists of a length", Schema(R"({"type": "array", "minItems": 2000000000})"),
           TooComplex("has minItems 2000000000 at #; limit is 10000")},
          {"many properties",
           Schema(absl::StrCat(R"({"type": "object", "properties": {)", Numbered(2049, "\"p", "\": true"), "}}")),
           TooComplex("has 2049 properties at #; limit is 2048")},
          {"many schemas", Schema(absl::StrCat(R"({"anyOf": [)", Numbered(4001, R"({"const": )", "}"), "]}")),
           TooComplex("has more than 4000 schemas")},
          {"schemas that multiply",
           Schema(
               R"({"minItems": 1000, "maxItems": 1024, "items": {"minItems": 1000, "items": {"type": "array", "minItems": 1000}}})"),
           Ok()},
          {"patterns that are combined",
           Schema(absl::StrCat(R"({"allOf": [)", Numbered(9, R"({"type": "string", "pattern": ")", ".*x\"}"), "]}")),
           TooComplex("combines too many patterns at #/allOf/8; limit is 8")},
          {"a pattern that explodes elsewhere", Schema(R"({"type": "string", "pattern": "^(a+)+$"})"), Ok()},
          {"a schema after those that are refused", Schema(R"({"type": "array", "items": {"$ref": "#"}})"), Ok()},
      }};
}

}  // namespace dunlin::integration
