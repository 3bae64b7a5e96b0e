// SPDX-License-Identifier: Apache-2.0
// What the grammar of a form admits, the form's parser takes as complete calls, whose arguments Python's jsonschema
// validates. Random walks through the masks stand for a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/text/chat_output/parsed_output.h"
#include "text/chat_output/call_grammar.h"
#include "text/grammar.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr int kMaxTokens = 600;
constexpr unsigned kWalks = 20;  // of each form
constexpr char kGoldens[] = DUNLIN_SOURCE_DIR "/tests/golden/grammar";
constexpr char kPlain[] = DUNLIN_SOURCE_DIR "/models/demo";                     // no marker is a special token
constexpr char kSpecial[] = DUNLIN_SOURCE_DIR "/tests/golden/chat/byte_level";  // those of gpt-oss and Mistral are

constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "description": "Where"}, "unit": {"type": "string", "enum": ["C", "\"F\""]},
    "days": {"type": "integer", "minimum": 1, "maximum": 14}}, "required": ["city"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "ping"}},
  {"name": "find.birds", "parameters": {"type": "object", "properties": {
    "q": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "limit": {"type": "number"},
    "mode": {"const": "fast"}, "exact": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    "at": {"$ref": "#/$defs/place"}}, "required": ["limit", "at"], "additionalProperties": false,
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/place"}},
      "required": ["x"], "additionalProperties": false}}}},
  {"name": "note", "parameters": {"type": "object", "properties": {
    "pick": {"type": "array", "items": {"enum": ["a\"b", -1, null]}, "minItems": 1, "maxItems": 2},
    "flags": {"type": "object", "additionalProperties": {"type": "boolean"}}, "all": {"type": "object"},
    "either": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "array", "maxItems": 0}]}},
    "required": ["pick"], "additionalProperties": false}}])";

// A tokenizer of which every marker of every form is a special token.
std::string EveryMarkerSpecial() {
  const std::string golden = DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2/";
  std::ifstream in(golden + "tokenizer.json");
  Json file = Json::parse(in);
  std::set<std::string_view> markers;
  for (const ToolFormat& format : ToolFormats()) markers.insert(format.tokens.begin(), format.tokens.end());
  for (const ReasoningFormat& format : ReasoningFormats()) markers.insert(format.tokens.begin(), format.tokens.end());
  size_t id = 0;
  for (const Json& token : file.at("added_tokens")) id = std::max(id, token.at("id").get<size_t>() + 1);
  id = std::max(id, file.at("model").at("vocab").size());
  for (const std::string_view marker : markers) {
    file["added_tokens"].push_back({{"id", id++},
                                    {"content", marker},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  const std::string folder = testing::TempDir() + "/every_marker_special";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/tokenizer.json") << file;
  std::filesystem::copy_file(golden + "tokenizer_config.json", folder + "/tokenizer_config.json",
                             std::filesystem::copy_options::overwrite_existing);
  return folder;
}

const std::vector<std::string>& Directories() {
  static const std::vector<std::string> directories = {kPlain, kSpecial, EveryMarkerSpecial()};
  return directories;
}

const ToolSet& WalkTools() {
  static const ToolSet tools = ToolSet::Parse(kTools);
  return tools;
}

// A tokenizer and its masks.
class Vocabulary {
 public:
  explicit Vocabulary(const std::string& directory) {
    tokenizer_ = Tokenizer::Load(directory, 0).value();
    eos_ = *tokenizer_->eos_token_id();
    width_ = static_cast<int32_t>(tokenizer_->vocab_size());
    const std::vector<engine::TokenId> eos = {eos_};
    compiler_ = GrammarCompiler::Create(*tokenizer_, eos, width_).value();
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::vector<engine::TokenId> Encode(const std::string& text) const {
    return tokenizer_->Encode(text, {.add_special_tokens = false, .parse_special = true}).value();
  }

  std::shared_ptr<const engine::TokenConstraint> Compile(const GrammarSource& source) const {
    const auto constraint = compiler_->Compile(source);
    EXPECT_TRUE(constraint.ok()) << constraint.status() << "\n" << source.text;
    return constraint.ok() ? *constraint : nullptr;
  }

  // Begins with `text`, draws among the allowed tokens, and more and more often writes what closes something. nullopt:
  // kMaxTokens.
  std::optional<std::string> Walk(const engine::TokenConstraint& constraint, const std::string& text,
                                  std::mt19937* random) const {
    const std::vector<std::string> closers = {"\"",
                                              "}",
                                              "]",
                                              ")",
                                              "</parameter>",
                                              "\n</parameter>",
                                              "</arg_value>",
                                              "<|\"|>",
                                              "</｜DSML｜parameter>",
                                              "</atem:parameter>",
                                              "<escape>",
                                              "]<]minimax[>["};
    const std::unique_ptr<engine::ConstraintState> state = constraint.Start();
    std::vector<engine::TokenId> output;
    std::vector<engine::TokenId> wanted = Encode(text);
    while (output.size() < kMaxTokens) {
      const std::vector<engine::TokenId> allowed = Allowed(state.get());
      const bool may_end = state->is_accepting() && (wanted.empty() || allowed.empty());
      if (may_end && (allowed.empty() || (*random)() % 4 == 0)) {
        return *tokenizer_->Decode(output, /*skip_special=*/false);
      }
      EXPECT_FALSE(allowed.empty()) << *tokenizer_->Decode(output, false);
      if (allowed.empty()) return std::nullopt;
      if (wanted.empty() && (*random)() % 60 < output.size()) wanted = Encode(closers[(*random)() % closers.size()]);
      const bool is_allowed = !wanted.empty() && std::binary_search(allowed.begin(), allowed.end(), wanted[0]);
      EXPECT_TRUE(is_allowed || output.size() >= Encode(text).size()) << *tokenizer_->Decode(output, false);
      output.push_back(is_allowed ? wanted[0] : allowed[(*random)() % allowed.size()]);
      if (is_allowed) {
        wanted.erase(wanted.begin());
      } else {
        wanted.clear();
      }
      EXPECT_TRUE(state->Accept(output.back()).ok()) << output.back();
    }
    return std::nullopt;
  }

 private:
  // Ascending, without the end of the text.
  std::vector<engine::TokenId> Allowed(engine::ConstraintState* state) const {
    std::vector<uint32_t> mask((static_cast<size_t>(width_) + 31) / 32);
    EXPECT_TRUE(state->FillMask(std::span(mask)).ok());
    std::vector<engine::TokenId> allowed;
    for (engine::TokenId id = 0; id < width_; ++id) {
      const auto at = static_cast<size_t>(id);
      if (id != eos_ && (mask[at / 32] >> (at % 32) & 1U) != 0) allowed.push_back(id);
    }
    return allowed;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GrammarCompiler> compiler_;
  engine::TokenId eos_ = 0;
  int32_t width_ = 0;
};

// The arguments of calls for validate_outputs.py.
class ArgumentsFile {
 public:
  ArgumentsFile() {
    Json schemas = Json::array();
    for (const ToolSet::Tool& tool : WalkTools().tools()) {
      const Json schema = tool.parameters.is_null() ? Json({{"type", "object"}}) : tool.parameters;
      schemas.push_back({{"schema", schema}, {"valid", Json::array()}, {"invalid", Json::array()}});
    }
    std::ofstream(schemas_) << schemas;
  }
  void Add(const ParsedCall& call) {
    const std::vector<ToolSet::Tool>& tools = WalkTools().tools();
    const ToolSet::Tool* tool = WalkTools().Find(call.name);
    ASSERT_NE(tool, nullptr) << call.name;
    outputs_ << Json({{"schema", tool - tools.data()}, {"text", call.arguments}}).dump() << "\n";
  }
  void Validate() {
    outputs_.close();
    const std::string command =
        absl::StrCat("python3 -W ignore ", kGoldens, "/validate_outputs.py ", schemas_, " ", path_);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }

 private:
  const std::string schemas_ = absl::StrCat(testing::TempDir(), "/call_schemas.json");
  const std::string path_ = absl::StrCat(testing::TempDir(), "/call_arguments.jsonl");
  std::ofstream outputs_{path_};
};

struct Way {
  const char* reasoning;
  const char* prompt;
  const char* begin;  // of the output
  const char* thought;
};

CallGrammar AllTools(const Tokenizer& tokenizer) {
  CallGrammar request;
  request.tokenizer = &tokenizer;
  for (const ToolSet::Tool& tool : WalkTools().tools()) request.tools.push_back(&tool);
  return request;
}

// Walks of a form; how many calls there were.
int ExpectCalls(const Vocabulary& vocabulary, const ToolFormat& format, const Way& way, bool several,
                ArgumentsFile* arguments) {
  const ParseOptions options = {.forms = FormsNamed(way.reasoning, format.name),
                                .tools = &WalkTools(),
                                .parallel = several,
                                .prompt = way.prompt};
  CallGrammar request = AllTools(vocabulary.tokenizer());
  request.several = several;
  const auto source = ToolCallGrammar(options.forms, request, way.prompt);
  EXPECT_TRUE(source.ok()) << source.status();
  const auto constraint = vocabulary.Compile(*source);
  if (constraint == nullptr) return 0;
  int calls = 0;
  unsigned finished = 0;
  for (unsigned seed = 0; seed < 4 * kWalks && finished < kWalks; ++seed) {
    std::mt19937 random(seed);
    const std::optional<std::string> text = vocabulary.Walk(*constraint, way.begin, &random);
    if (!text.has_value()) continue;
    ++finished;
    const ParsedOutput parsed = Parse(options, *text);
    EXPECT_EQ(parsed.text, "") << format.name << ": " << *text;
    EXPECT_EQ(parsed.reasoning, way.thought) << format.name << ": " << *text;
    EXPECT_EQ(parsed.complete_calls().size(), parsed.calls.size()) << *text;
    EXPECT_GE(parsed.calls.size(), 1U) << *text;
    EXPECT_LE(parsed.calls.size(), several ? SIZE_MAX : 1) << *text;
    for (const ParsedCall& call : parsed.calls) arguments->Add(call);
    calls += static_cast<int>(parsed.calls.size());
    if (testing::Test::HasFailure()) return calls;
  }
  EXPECT_EQ(finished, kWalks) << format.name;
  return calls;
}

// Outputs of a frame may think first.
Way WayOf(const ToolFormat& format) {
  if (format.frame == OutputFrame::kChannels) return {"gpt_oss", "", "<|channel|>commentary", ""};
  if (format.frame == OutputFrame::kRecipients) return {"muse_glimmer", "", " to=ping", ""};
  return {"none", "", "", ""};
}

TEST(GrammarOutput, OfEveryFormIsCallsOfItsParser) {
  ArgumentsFile arguments;
  for (const std::string& directory : Directories()) {
    const Vocabulary vocabulary(directory);
    for (const ToolFormat& format : ToolFormats()) {
      SCOPED_TRACE(absl::StrCat(format.name, " ", directory));
      const Way way = WayOf(format);
      const bool is_harmony = format.frame == OutputFrame::kChannels;  // whose outputs have one call
      ExpectCalls(vocabulary, format, way, /*several=*/false, &arguments);
      const int calls = ExpectCalls(vocabulary, format, way, /*several=*/true, &arguments);
      EXPECT_GE(calls, static_cast<int>(is_harmony ? kWalks : kWalks + 1)) << "never a second call";
      if (HasFailure()) return;
    }
  }
  arguments.Validate();
}

TEST(GrammarOutput, MayBeginWithReasoning) {
  constexpr Way kWays[] = {
      {"gemma4", "", "<|channel>thought\nHm <b>\n<channel|>", "Hm <b>"},
      {"gemma4", "<|channel>thought\n", "Hm.<channel|>", "Hm."},
      {"kimi_k2", "", "<think>Hm.</think>", "Hm."},
      {"cohere", "", "<|START_THINKING|>Hm.<|END_THINKING|>", "Hm."},
      {"seed_oss", "<seed:think>", "Hm.</seed:think>", "Hm."},
      {"minimax_m3", "", "<mm:think>Hm.</mm:think>", "Hm."},
      {"minimax_m3", "", "</mm:think>\n", ""},
      {"qwen3", "", "<think>\nHm \"{<\n\n</think>\n\n", "Hm \"{<"},
      {"think_tags", "<think>\n", "Hm.</think>", "Hm."},
      {"think_tags", "", "<tool_call>", ""},
      {"mistral", "", "[THINK]a[/THINK]", "a"},
      {"gpt_oss", "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary", "Hm."},
      {"muse_glimmer", "", " to=self<|message|>Hm.<|eom|><|start|>assistant to=ping.ping<|message|>", "Hm."}};
  ArgumentsFile arguments;
  for (const std::string& directory : Directories()) {
    const Vocabulary vocabulary(directory);
    for (const Way& way : kWays) {
      const bool framed = FindReasoningFormat(way.reasoning)->frame != OutputFrame::kNone;
      const char* calls = framed ? way.reasoning : "hermes";
      SCOPED_TRACE(absl::StrCat(way.reasoning, " ", directory));
      ExpectCalls(vocabulary, *FindToolFormat(calls), way, /*several=*/true, &arguments);
      if (HasFailure()) return;
    }
  }
  arguments.Validate();
}

TEST(GrammarOutput, AfterReasoningIsWhatTheClientAskedFor) {
  const GrammarSource source = {GrammarKind::kChoice, "", {"yes", "\"no\""}};
  for (const std::string& directory : Directories()) {
    const Vocabulary vocabulary(directory);
    for (const Way& way : {Way{"qwen3", "", "<think>Hm</think>\n", "Hm"}, Way{"qwen3", "", "", ""},
                           Way{"gpt_oss", "", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant", "Hm"},
                           Way{"muse_glimmer", "", " to=self<|message|>Hm<|eom|><|start|>assistant to=user", "Hm"}}) {
      const ParseOptions options = {.forms = FormsNamed(way.reasoning, "none"), .prompt = way.prompt};
      const auto constraint =
          vocabulary.Compile(AfterReasoning(source, options.forms.reasoning, &vocabulary.tokenizer(), way.prompt));
      ASSERT_NE(constraint, nullptr);
      std::map<std::string, int> answers;
      for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        const std::optional<std::string> text = vocabulary.Walk(*constraint, way.begin, &random);
        if (!text.has_value()) continue;
        const ParsedOutput parsed = Parse(options, *text);
        EXPECT_THAT(parsed.reasoning, testing::StartsWith(way.thought)) << *text;  // harmony may think on
        ++answers[parsed.text];
      }
      EXPECT_THAT(answers, testing::UnorderedElementsAre(testing::Key("yes"), testing::Key("\"no\""))) << directory;
    }
  }
}

TEST(GrammarOutput, WhatAFormCannotEnforceIsRefusedByName) {
  const auto refusal = [](const char* form, const std::string& parameters) {
    const ToolSet tools = ToolSet::Parse(absl::StrCat(R"([{"name": "f", "parameters": )", parameters, "}]"));
    CallGrammar request;
    request.tools = {&tools.tools()[0]};
    const auto source = ToolCallGrammar(FormsNamed("none", form), request, "");
    return source.ok() ? "" : std::string(source.status().message());
  };
  EXPECT_EQ(refusal("hermes", R"({"type": "string"})"), "in function \"f\" has parameters that are no object");
  EXPECT_EQ(refusal("hermes", R"({"minProperties": 1})"), "");
  EXPECT_THAT(refusal("pythonic", R"({"minProperties": 1})"), HasSubstr("has \"minProperties\" beside its properties"));
  EXPECT_THAT(refusal("pythonic", R"({"properties": {"a b": {}}})"), HasSubstr("has a parameter named \"a b\""));
  EXPECT_EQ(refusal("qwen3_coder", R"({"properties": {"a b": {}}})"), "");
  EXPECT_THAT(refusal("qwen3_coder", R"({"required": ["a"]})"), HasSubstr("requires \"a\", which is not one of its"));
  EXPECT_THAT(refusal("qwen3_coder", R"({"properties": {"a": {"type": "string", "pattern": "x"}}})"),
              HasSubstr("has the parameter \"a\", a text with further rules"));
  for (const char* form : {"glm", "minimax_m2", "minimax_m3", "dsml", "gemma4", "muse_glimmer"}) {
    EXPECT_THAT(refusal(form, R"({"minProperties": 1})"), HasSubstr("has \"minProperties\" beside its properties"));
  }
  EXPECT_THAT(refusal("minimax_m2", R"({"properties": {"a\"b": {}}})"), HasSubstr("has a parameter named"));
  EXPECT_THAT(refusal("glm", R"({"properties": {"a": {"enum": ["</arg_value>"]}}})"), HasSubstr("further rules"));
  EXPECT_THAT(refusal("gemma4", R"({"properties": {"a:b": {}}})"), HasSubstr("has a parameter named \"a:b\""));
  EXPECT_THAT(refusal("minimax_m3", R"({"properties": {"/a": {}}})"), HasSubstr("has a parameter named \"/a\""));
  constexpr std::pair<const char*, const char*> kMinimax[] = {
      {R"({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]})",
       "texts next to other values with rules"},
      {R"({"anyOf": [{"type": "object"}, {"type": "array", "maxItems": 1}]})", "lists next to objects"},
      {R"({"anyOf": [{"type": "object", "minProperties": 1}, {"type": "object"}]})",
       "objects or lists of several kinds"},
      {R"({"type": "object", "additionalProperties": {"$ref": "#/x"}})", "a \"$ref\" in \"additionalProperties\""},
      {R"({"type": ["string", "integer"], "enum": ["5"]})", "values that cannot be written"},
      {R"({"enum": [[1]]})", "values that cannot be written"},
      {R"({"type": ["string", "number"], "enum": ["1e999"]})", "values that cannot be written"},
      {R"({"enum": ["[\"\\ud800\"]", []]})", "values that cannot be written"},
      {R"({"const": "]<]minimax[>["})", "values that cannot be written"}};
  for (const auto& [schema, why] : kMinimax) {
    EXPECT_THAT(refusal("minimax_m3", absl::StrCat(R"({"properties": {"a": )", schema, "}}")), HasSubstr(why));
  }
  constexpr std::pair<const char*, const char*> kGemma[] = {
      {R"({"type": "string", "pattern": "x"})", "has \"pattern\" in its parameters"},
      {R"({"type": "array", "items": {"oneOf": []}})", "has \"oneOf\" in its parameters"},
      {R"({"type": "array", "uniqueItems": true})", "has \"uniqueItems\""},
      {R"({"type": "array", "minItems": 2, "maxItems": 1})", "\"maxItems\" below \"minItems\""},
      {R"({"$ref": "#/$defs/none"})", "a \"$ref\" to no schema"},
      {R"({"$ref": "#/properties/a"})", "a \"$ref\" to itself"},
      {R"({"minimum": 1})", "\"minimum\" without a type"},
      {R"({"type": "date"})", "the type \"date\""},
      {R"({"const": "<|\"|>"})", "values that cannot be written"},
      {"false", "a schema that is false"}};
  for (const auto& [schema, why] : kGemma) {
    EXPECT_THAT(refusal("gemma4", absl::StrCat(R"({"properties": {"a": )", schema, "}}")), HasSubstr(why));
  }
  const std::string name(3000, 'x');
  std::string many = R"({"$defs": {"d": {"const": ")" + name + R"("}}, "properties": {)";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&many, i == 0 ? "" : ", ", "\"p", i, R"(": {"$ref": "#/$defs/d"})");
  }
  EXPECT_THAT(refusal("pythonic", many + "}}"), HasSubstr("bytes of schemas; limit is 1048576"));
}

}  // namespace
}  // namespace dunlin::text
