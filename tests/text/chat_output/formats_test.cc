// SPDX-License-Identifier: Apache-2.0
// The tables of forms: names, markers that cannot be confused, and which templates are recognised.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/text/chat_output/parsed_output.h"
#include "text/chat_output/parser_names.h"

namespace dunlin::text {
namespace {

std::string NameOf(const ToolFormat* format) {
  return format == nullptr ? "none" : format->name;
}
std::string NameOf(const ReasoningFormat* format) {
  return format == nullptr ? "none" : format->name;
}

std::string Golden(const std::string& name) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/chat/templates/" + name + ".jinja");
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Row {
  const char* text;
  const char* calls;
  const char* reasoning;
};

TEST(Formats, AreRecognisedByTheGoldenTemplates) {
  constexpr Row kRows[] = {
      {"bracketed_instructions", "none", "none"},
      {"channels", "gpt_oss", "gpt_oss"},
      {"default_system", "none", "none"},
      {"expressions", "none", "none"},
      {"grounded", "none", "none"},
      {"header_blocks", "llama3_json", "none"},
      {"listed_tools", "mistral", "none"},
      {"parts_only", "none", "none"},
      {"plain_turns", "none", "none"},
      {"role_tokens", "none", "none"},
      {"thinking_tools", "hermes", "qwen3"},
      {"typed_signatures", "pythonic", "none"},
      {"xml_tools", "none", "qwen3"},
  };
  for (const Row& row : kRows) {
    const std::string text = Golden(row.text);
    EXPECT_EQ(NameOf(RecogniseToolFormat(text)), row.calls) << row.text;
    EXPECT_EQ(NameOf(RecogniseReasoningFormat(text)), row.reasoning) << row.text;
  }
}

// What the families' templates have, one feature each, and those of two forms at once.
TEST(Formats, AreRecognisedByWhatTheirTemplatesHave) {
  constexpr Row kRows[] = {
      {"{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' }}</think>", "deepseek",
       "think_tags"},
      {"{{ '<｜Assistant｜><think>\\n' }}", "none", "think_tags"},
      {"{{ '<mm:think>' }}{{ content.split('</mm:think>')[-1] }}", "none", "minimax_m3"},
      {"{%- set ns_token = ']<]minimax[>[' -%}{{ ns_token ~ '<tool_call>' }}{{ '</mm:think>' }}", "minimax_m3",
       "minimax_m3"},
      {"{{ '<|start|>assistant to=self<|message|>' }}{%- macro render_atem(tc) -%}{{- '<atem:function_calls>\\n' -}}",
       "muse_glimmer", "muse_glimmer"},
      {"{{ '[TOOL_CALLS]' + name + '[ARGS]' + arguments }}", "mistral", "none"},
      {"[THINK]{{ message.thinking }}[/THINK][TOOL_CALLS]", "mistral", "mistral"},
      {"<tool_call>\n<function=example>\n<parameter=a>\nvalue\n</parameter>\n</function>\n</tool_call>", "qwen3_coder",
       "none"},
      {"respond with <|tool_call|> followed by a JSON list", "granite", "none"},
      {"{{ '<tool_call>[' }}", "granite", "none"},
      {"<tool_call>\\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\\n</tool_call>", "hermes", "none"},
      {"[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]", "pythonic",
       "none"},
      {"{{ '<|python_start|>' }}", "pythonic", "none"},
      {"{{ '<|python_tag|>' + name + '.call(' }}", "llama3_json", "none"},
      {"{\"name\": function name, \"parameters\": dictionary}", "llama3_json", "none"},
      {"{\"name\": \"f\", \"parameters\": {}}", "llama3_json", "none"},
      {"<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>...</tool_call>"
       "{{ '</think>' if not enable_thinking else '<think>' }}",
       "glm", "qwen3"},
      {"<tool_call>f<tool_sep><arg_key>k</arg_key><arg_value>v</arg_value></tool_call>", "hy_v3", "none"},
      {"{{ '<seed:tool_call>\\n<function=' + name + '>\\n<parameter=' }}{{ '<seed:think>' }}", "seed_oss", "seed_oss"},
      {"{{ '<start_function_call>call:' + name + '{' }}{{ '<escape>' }}", "functiongemma", "none"},
      {"{{ '<function_calls>' }}{{ calls }}{{ '</function_calls>' }}<think>", "olmo3", "think_tags"},
      {"<function_calls>\n<invoke name=\"f\">", "none", "none"},
      {"{{ '<tool_calls>[' }}{{ calls }}{{ ']</tool_calls>' }}", "hunyuan", "none"},
      {"{{ '<TOOLCALL>[' }}</think>", "nemotron", "think_tags"},
      {"{{ '<|tool|>' + message['tools'] + '<|/tool|>' }}", "phi4_mini", "none"},
      {"{{ '<|START_ACTION|>[' }}{{ '<|START_THINKING|>' }}", "cohere", "cohere"},
      {"{{ '<|tool_calls_section_begin|>' }}<|tool_call_begin|>{{ formatted_id }}<|tool_call_argument_begin|>"
       "<think></think>",
       "kimi_k2", "kimi_k2"},
      {"{{ '<|tool_call>call:' + name + '{' }}{{ '<|channel>thought\\n<channel|>' }}", "gemma4", "gemma4"},
      {"{%- set toolcall_begin_token = '<minimax:tool_call>' -%}<invoke name=\"f\">{{ '<think>' }}", "minimax_m2",
       "think_tags"},
      {"{%- set dsml_token = '｜DSML｜' -%}{%- set thinking = enable_thinking -%}{{ '</think>' }}", "dsml", "qwen3"},
      {"{{ '<|tool_call_start|>[' + calls + ']<|tool_call_end|>' }}", "lfm2", "none"},
      {"{{ 'List of tools: <|tool_list_start|>[' }}", "lfm2", "none"},
      {"{{ 'List of tools: [' }}{{ content.split('</think>')[-1] }}", "lfm2", "think_tags"},
      {"{% if enable_thinking is false %}<think>\n\n</think>{% endif %}<tool_call>", "hermes", "qwen3"},
      {"{{ content.split('</think>')[-1].split('<answer>')[-1].split('</answer>')[0] }}{{ enable_thinking }}", "none",
       "hunyuan"},
      {"{{ '</think>\n<response>\n' + content + '\n</response>\n' }}<tool_call>", "hermes", "ernie4_5"},
      {"", "none", "none"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(NameOf(RecogniseToolFormat(row.text)), row.calls) << row.text;
    EXPECT_EQ(NameOf(RecogniseReasoningFormat(row.text)), row.reasoning) << row.text;
  }
}

TEST(Formats, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const ToolFormat& format : ToolFormats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_EQ(FindToolFormat(format.name), &format);
  }
  EXPECT_EQ(FindToolFormat("auto"), nullptr);
  names.clear();
  for (const ReasoningFormat& format : ReasoningFormats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_EQ(FindReasoningFormat(format.name), &format);
  }
  EXPECT_EQ(FindReasoningFormat("none"), nullptr);
}

TEST(Formats, AreTheChoicesOfTheConfiguration) {
  std::string calls = "auto|none";
  for (const ToolFormat& format : ToolFormats()) calls += std::string("|") + format.name;
  EXPECT_EQ(calls, kToolParserChoices);
  std::string reasoning = "auto|none";
  for (const ReasoningFormat& format : ReasoningFormats()) reasoning += std::string("|") + format.name;
  EXPECT_EQ(reasoning, kReasoningParserChoices);
}

// A parser decides by the first marker that is complete.
TEST(Formats, HaveNoMarkerThatBeginsAnother) {
  for (const ToolFormat& format : ToolFormats()) {
    std::vector<std::string_view> markers(format.openers.begin(), format.openers.end());
    markers.insert(markers.end(), format.closers.begin(), format.closers.end());
    for (const std::string_view a : markers) {
      EXPECT_FALSE(a.empty());
      for (const std::string_view b : markers) EXPECT_TRUE(a == b || b.substr(0, a.size()) != a) << a << " " << b;
    }
  }
}

TEST(Formats, OfHarmonyReadAWholeOutputOrNone) {
  EXPECT_TRUE(Fit(FormsNamed("gpt_oss", "gpt_oss")));
  EXPECT_TRUE(Fit(FormsNamed("none", "gpt_oss")));
  EXPECT_TRUE(Fit(FormsNamed("qwen3", "hermes")));
  EXPECT_FALSE(Fit(FormsNamed("qwen3", "gpt_oss")));
  EXPECT_TRUE(Fit(FormsNamed("muse_glimmer", "muse_glimmer")));
  EXPECT_FALSE(Fit(FormsNamed("gpt_oss", "muse_glimmer")));
  EXPECT_FALSE(Fit(FormsNamed("gpt_oss", "hermes")));
}

TEST(Formats, AreChosenByNameOrByTheTemplate) {
  const std::string text = "<tool_call></think>";
  const auto chosen = [](const char* calls, const char* reasoning, const std::string& chat_template) {
    const auto forms = ChooseForms(calls, reasoning, chat_template);
    return forms.ok() ? NameOf(forms->calls) + " " + NameOf(forms->reasoning) : std::string(forms.status().message());
  };
  EXPECT_EQ(chosen("auto", "auto", text), "hermes think_tags");
  EXPECT_EQ(chosen("none", "auto", text), "none think_tags");
  EXPECT_EQ(chosen("mistral", "none", text), "mistral none");
  EXPECT_EQ(chosen("gpt_oss", "auto", text), "gpt_oss none") << "what is only recognised gives way";
  EXPECT_EQ(chosen("auto", "gpt_oss", text), "none gpt_oss");
  EXPECT_EQ(
      chosen("hermes", "gpt_oss", text),
      "models[].reasoning_parser is gpt_oss; limit is one that fits models[].tool_parser hermes: gpt_oss for both "
      "or muse_glimmer for both, or neither of them");
  EXPECT_EQ(chosen("hermse", "auto", text),
            std::string("models[].tool_parser is hermse; limit is one of ") + kToolParserChoices);
  EXPECT_EQ(chosen("auto", "r1", text),
            std::string("models[].reasoning_parser is r1; limit is one of ") + kReasoningParserChoices);
}

TEST(Formats, AnOutputBeginsInTheReasoningThatThePromptHasOpened) {
  const ReasoningFormat& think = *FindReasoningFormat("think_tags");
  EXPECT_TRUE(BeginsInReasoning(think, "<|user|>hi<|assistant|><think>\n"));
  EXPECT_TRUE(BeginsInReasoning(think, "<think>"));
  EXPECT_FALSE(BeginsInReasoning(think, "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(BeginsInReasoning(think, "what is <think>?<|assistant|>"));
  EXPECT_FALSE(BeginsInReasoning(think, ""));
  EXPECT_FALSE(BeginsInReasoning(*FindReasoningFormat("gpt_oss"), "<think>"));
}

TEST(ToolSet, ReadsFunctionsInBothForms) {
  const ToolSet& tools = TestTools();
  ASSERT_EQ(tools.tools().size(), 3U);
  EXPECT_NE(tools.Find("get_weather"), nullptr);
  EXPECT_NE(tools.Find("find.birds"), nullptr);
  EXPECT_EQ(tools.Find("get"), nullptr);
  EXPECT_TRUE(ToolSet::Parse("").empty());
  EXPECT_TRUE(ToolSet::Parse("[{\"type\": \"function\"}, {\"name\": 7}]").empty());
}

TEST(ToolSet, MakesJsonByTheSchema) {
  const ToolSet& tools = TestTools();
  const auto json = [&tools](const char* parameter, const char* text) {
    return tools.ToJson("get_weather", parameter, text);
  };
  EXPECT_EQ(json("days", " 7 "), "7");
  EXPECT_EQ(json("days", "7.5"), "\"7.5\"");
  EXPECT_EQ(json("exact", "False"), "false");
  EXPECT_EQ(json("exact", "no"), "\"no\"");
  EXPECT_EQ(json("at", "{\"x\": 1}"), "{\"x\": 1}");
  EXPECT_EQ(json("at", "{"), "\"{\"");
  EXPECT_EQ(json("city", "7"), "\"7\"");
  EXPECT_EQ(json("unknown", "7"), "\"7\"");
  EXPECT_EQ(tools.ToJson("find.birds", "q", "None"), "null");
  EXPECT_EQ(tools.ToJson("find.birds", "limit", "2"), "2");
  EXPECT_EQ(tools.TextOf("get_weather", "city"), ParameterText::kText);
  EXPECT_EQ(tools.TextOf("get_weather", "unknown"), ParameterText::kText);
  EXPECT_EQ(tools.TextOf("get_weather", "days"), ParameterText::kJson);
  EXPECT_EQ(tools.TextOf("find.birds", "q"), ParameterText::kEither);
}

// A schema may refer to itself in ways whose number grows with their depth.
TEST(ToolSet, LooksForTypesInBoundedTime) {
  std::string options = R"({"$ref": "#/$defs/a"})";
  for (int i = 0; i < 100; ++i) options += R"(, {"$ref": "#/$defs/a"})";
  const ToolSet tools = ToolSet::Parse(R"([{"name": "f", "parameters": {"$defs": {"a": {"anyOf": [)" + options +
                                       R"(]}}, "properties": {"x": {"$ref": "#/$defs/a"}}}}])");
  EXPECT_EQ(tools.ToJson("f", "x", "1"), "\"1\"");
  EXPECT_EQ(tools.ToJson("f", "y", "1"), "\"1\"");
}

int64_t PeakKib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Nor does the memory for the types grow with how often a reference leads to the same values.
TEST(ToolSet, HoldsEachTypeOnceHoweverOftenItIsReached) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  std::string values = "1";
  for (int i = 0; i < 20'000; ++i) values += ",1";
  std::string options = R"({"$ref": "#/$defs/a"})";
  for (int i = 0; i < 9; ++i) options += R"(, {"$ref": "#/$defs/a"})";
  const ToolSet tools =
      ToolSet::Parse(R"([{"name": "f", "parameters": {"$defs": {"a": {"enum": [)" + values + R"(], "anyOf": [)" +
                     options + R"(]}}, "properties": {"x": {"$ref": "#/$defs/a"}}}}])");
  const int64_t before = PeakKib();
  EXPECT_EQ(tools.ToJson("f", "x", "1"), "1");
  EXPECT_LT(PeakKib() - before, 64 << 10);
}

TEST(ValueSchema, GoesThroughReferencesAndOptions) {
  const ToolSet tools = ToolSet::Parse(R"([{"name": "f", "parameters": {
    "$defs": {"list": {"type": "array", "items": {"type": "integer"}}},
    "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}, "b": {"type": "object"}},
    "additionalProperties": {"type": "boolean"}}}])");
  const ValueSchema arguments = Arguments(tools.tools()[0]);
  const ValueSchema a = arguments.Member("a");
  EXPECT_TRUE(a.Names("array") && a.Names("null") && !a.Names("object"));
  EXPECT_EQ(a.Items().ToJson("7"), "7");
  EXPECT_EQ(a.Items().ToJson("7.5"), "\"7.5\"");
  EXPECT_EQ(arguments.Member("c").ToJson("true"), "true");
  EXPECT_FALSE(arguments.Member("b").Member("x").says_types());
  EXPECT_EQ(arguments.Member("b").Items().text(), ParameterText::kText);
}

}  // namespace
}  // namespace dunlin::text
