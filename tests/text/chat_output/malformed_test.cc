// SPDX-License-Identifier: Apache-2.0
// What is almost a call is text, byte for byte; the calls beside it stay calls.
#include <gtest/gtest.h>

#include <string>

#include "tests/text/chat_output/parsed_output.h"

namespace dunlin::text {
namespace {

struct Malformed {
  const char* form;
  const char* output;
};

// All of each is text.
constexpr Malformed kAllText[] = {
    {"hermes", "<tool_call>"},
    {"hermes", "<tool_call>\n</tool_call>"},
    {"hermes", "<tool_call>ping()</tool_call> and so on"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": }}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": 1,}}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {'a': 1}}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": \"line\nbreak\"}}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": \"{}\"}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": [1]}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"name\": \"ping\"}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {}, \"parameters\": {}}</tool_call>"},
    {"hermes", "<tool_call>{\"arguments\": {}}</tool_call>"},
    {"hermes", "<tool_call>{}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {}"},
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": \"Le"},
    {"hermes", "<tool_call>[]</tool_call>"},
    {"hermes", "</tool_call>"},
    {"granite", "<|tool_call|>[1]"},
    {"granite", "<|tool_call|>[{\"name\": \"ping\""},
    {"mistral", "[TOOL_CALLS] [] and more"},
    {"mistral", "[TOOL_CALLS]two words[ARGS]{}"},
    {"mistral", "[TOOL_CALLS]ping[ARGS]1"},
    {"mistral", "[TOOL_CALLS]{}"},
    {"deepseek", "<｜tool▁calls▁begin｜>ping"},
    {"deepseek", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n{}"},
    {"deepseek", "<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{\"a\"}"},
    {"deepseek", "<｜tool▁call▁end｜>"},
    {"llama3_json", "{\"name\": \"unknown\", \"parameters\": {}}"},
    {"llama3_json", "{\"name\": \"ping\", \"parameters\": {}"},
    {"llama3_json", "Call {\"name\": \"ping\", \"parameters\": {}}"},
    {"pythonic", "[]"},
    {"pythonic", "[unknown()]"},
    {"pythonic", "[ping(1)]"},
    {"pythonic", "[ping(a=1, a=2)]"},
    {"pythonic", "[ping(a=b)]"},
    {"pythonic", "[ping(a='x"},
    {"pythonic", "[ping(a=[1)]"},
    {"qwen3_coder", "<tool_call>\n<function=ping>\n"},
    {"qwen3_coder", "<tool_call>\n<function=ping>\n<parameter=a>\n1\n</function>"},
    {"qwen3_coder", "<function=ping><parameter=a>1</parameter><parameter=a>1</parameter></function>"},
    {"qwen3_coder", "<function=ping>text</function>"},
    {"qwen3_coder", "<function=>"},
    {"glm", "<tool_call></tool_call>"},
    {"glm", "<tool_call>{\"name\": \"ping\"}</tool_call>"},
    {"glm", "<tool_call>two words</tool_call>"},
    {"glm", "<tool_call>ping<arg_key>a</arg_key></tool_call>"},
    {"glm", "<tool_call>ping<arg_key>a</arg_key>1</tool_call>"},
    {"glm", "<tool_call>ping<arg_key>a</arg_key><arg_value>1</tool_call>"},
    {"glm", "<tool_call>ping<arg_key>a<b</arg_key><arg_value>1</arg_value></tool_call>"},
    {"glm",
     "<tool_call>ping<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>a</arg_key><arg_value>2</arg_value>"
     "</tool_call>"},
    {"minimax_m2", "<minimax:tool_call>\n</minimax:tool_call>"},
    {"minimax_m2", "<minimax:tool_call>\n<invoke name=\"\"></invoke>\n</minimax:tool_call>"},
    {"minimax_m2", "<invoke name=\"ping\"><parameter name=\"a\">1</invoke>"},
    {"minimax_m2", "<invoke name=\"ping\">\n<parameter name=\"a>1</parameter></invoke>"},
    {"minimax_m3", "]<]minimax[>[<tool_call>\n]<]minimax[>[</tool_call>"},
    {"minimax_m3", "]<]minimax[>[<invoke name=\"\">]<]minimax[>[</invoke>"},
    {"minimax_m3", "]<]minimax[>[<invoke name=\"ping\">text]<]minimax[>[</invoke>"},
    {"minimax_m3", "]<]minimax[>[<invoke name=\"ping\">]<]minimax[>[<a>1]<]minimax[>[</invoke>"},
    {"minimax_m3", "]<]minimax[>[<invoke name=\"ping\">]<]minimax[>[<a>1]<]minimax[>[</b>]<]minimax[>[</invoke>"},
    {"minimax_m3",
     "]<]minimax[>[<invoke name=\"ping\">]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[<a>2]<]minimax[>[</a>"
     "]<]minimax[>[</invoke>"},
    {"minimax_m3",
     "]<]minimax[>[<invoke name=\"ping\">]<]minimax[>[<a>1]<]minimax[>[<b>2]<]minimax[>[</b>]<]minimax[>[</a>"
     "]<]minimax[>[</invoke>"},
    {"minimax_m3", "<tool_call>\n<invoke name=\"ping\">\n</invoke>\n</tool_call>"},
    {"seed_oss", "<seed:tool_call>\n<function=ping>\n</seed:tool_call>"},
    {"hy_v3", "<tool_calls>\n</tool_calls>"},
    {"hy_v3", "<tool_call>ping</tool_call>"},
    {"functiongemma", "<start_function_call>call:ping{a:<|\"|>x<|\"|>}<end_function_call>"},
    {"olmo3", "<function_calls></function_calls>"},
    {"olmo3", "<function_calls>ping(1)\n</function_calls>"},
    {"olmo3", "[ping()]"},
    {"hunyuan", "<tool_calls>[]</tool_calls>"},
    {"nemotron", "<TOOLCALL>[]</TOOLCALL>"},
    {"phi4_mini", "import functools\nfunctools.reduce(f, [1])"},
    {"phi4_mini", "functools[]"},
    {"cohere", "<|START_ACTION|>[]<|END_ACTION|>"},
    {"cohere", "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"parameters\": {}}]<|END_ACTION|>"},
    {"muse_glimmer", "<atem:function_calls>\n<atem:invoke name=\"ping\">\n</atem:invoke>\n</atem:function_calls>"},
    {"muse_glimmer", " to=ping"},
    {"dsml", "<｜DSML｜function_calls>\n</｜DSML｜function_calls>"},
    {"dsml", "<｜DSML｜invoke name=\"ping\"><｜DSML｜parameter name=\"a\">1</｜DSML｜parameter></｜DSML｜invoke>"},
    {"kimi_k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>"},
    {"kimi_k2", "<|tool_call_begin|>functions.ping<|tool_call_argument_begin|>{}<|tool_call_end|>"},
    {"kimi_k2", "<|tool_call_begin|>functions.:0<|tool_call_argument_begin|>{}<|tool_call_end|>"},
    {"kimi_k2", "<|tool_call_begin|>functions.ping:one<|tool_call_argument_begin|>{}<|tool_call_end|>"},
    {"kimi_k2", "<|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>[]<|tool_call_end|>"},
    {"kimi_k2", "<|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{\"a\": 1<|tool_call_end|>"},
    {"gemma4", "<|tool_call>ping{}<tool_call|>"},
    {"gemma4", "<|tool_call>call:{}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a:1,}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a:1,a:2}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a:word}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a:\"text\"}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a:<|\"|>text}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a:[1}<tool_call|>"},
    {"gemma4", "<|tool_call>call:ping{a b:1}<tool_call|>"},
    {"lfm2", "<|tool_call_start|>[]<|tool_call_end|>"},
    {"lfm2", "<|tool_call_start|>[ping(1)]<|tool_call_end|>"},
    {"lfm2", "<|tool_call_start|>ping()<|tool_call_end|>"},
};

TEST(MalformedCalls, AreTextByteForByte) {
  for (const Malformed& row : kAllText) {
    const ParseOptions options = {.forms = FormsNamed("", row.form)};
    const ParsedOutput parsed = Parse(options, row.output);
    EXPECT_EQ(parsed.text, row.output) << row.form;
    EXPECT_TRUE(parsed.complete_calls().empty()) << row.output;
    EXPECT_EQ(ParseBytewise(options, row.output), parsed) << row.output;
  }
}

TEST(MalformedCalls, LeaveTheCallsBesideThemCalls) {
  const std::string good = "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>";
  const std::string bad = "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\" 1}}</tool_call>";
  const ParseOptions options = {.forms = FormsNamed("", "hermes")};
  const ParsedOutput parsed = Parse(options, good + bad + good);
  EXPECT_EQ(parsed.text, bad);
  EXPECT_EQ(parsed.complete_calls().size(), 2U);
  EXPECT_EQ(ParseBytewise(options, good + bad + good), parsed);
  EXPECT_EQ(Parse(options, "<tool_call><tool_call>" + good).text, "<tool_call><tool_call>");
}

TEST(MalformedCalls, OfAListAreTextFromTheLastCallOn) {
  const ParsedOutput parsed = Parse({.forms = FormsNamed("", "mistral")},
                                    "[TOOL_CALLS] [{\"name\": \"ping\", \"arguments\": {}}, {\"name\": 1}] after");
  EXPECT_EQ(parsed.text, ", {\"name\": 1}] after");
  EXPECT_EQ(parsed.complete_calls().size(), 1U);
}

TEST(MalformedCalls, OfHarmonyAreTextWithTheirHeaders) {
  const ParseOptions options = {.forms = FormsNamed("gpt_oss", "gpt_oss")};
  const std::string call = "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>";
  for (const std::string& output : {call + "not JSON<|call|>", call + "{\"a\": 1", call + "{\"a\": }<|call|>", call}) {
    EXPECT_EQ(Parse(options, output).text, output);
    EXPECT_EQ(ParseBytewise(options, output), Parse(options, output));
  }
  const std::string header = "<|channel|>" + std::string(1000, 'x') + "<|message|>Hello";
  EXPECT_EQ(Parse(options, header).text, header);
  EXPECT_EQ(ParseBytewise(options, header), Parse(options, header));
}

// The header is a frame, what is to a tool is text.
TEST(MalformedCalls, OfMuseAreTextWithoutTheirHeaders) {
  const ParseOptions options = {.forms = FormsNamed("muse_glimmer", "muse_glimmer")};
  for (const std::string body :
       {"no call", "<atem:function_calls>\n</atem:function_calls>", "<atem:invoke name=\"ping\">\n<atem:parameter>",
        "<atem:invoke name=\"ping\">\n<atem:parameter name=\"a\">1</atem:invoke>"}) {
    const std::string output = " to=ping<|message|>" + body + "<|eom|><|start|>assistant to=user<|message|>!";
    EXPECT_EQ(Parse(options, output).text, body + "!");
    EXPECT_TRUE(Parse(options, output).complete_calls().empty());
    EXPECT_EQ(ParseBytewise(options, output), Parse(options, output));
  }
}

// What is kept of an output stays below a bound.
TEST(MalformedCalls, ThatAreTooLongAreText) {
  const std::string begun = "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": \"";
  const std::string output = begun + std::string(2 * kMaxCallBytes, 'x') + "\"}}</tool_call>";
  const ParsedOutput parsed = Parse({.forms = FormsNamed("", "hermes")}, output);
  EXPECT_EQ(parsed.text, output);
  const std::string spaces = std::string(1000, ' ');
  EXPECT_EQ(Parse({.forms = FormsNamed("", "hermes")}, spaces).text, spaces);
  EXPECT_EQ(Parse({.forms = FormsNamed("qwen3", "hermes")}, spaces + "x").text, spaces + "x");
}

// Up to 512 bytes, before its marker is there as after it.
TEST(Malformed, LongHeadersOfMessagesAreReadTheSameInPieces) {
  const ParseOptions options = {.forms = FormsNamed("gpt_oss", "gpt_oss")};
  for (const size_t size : {500U, 501U, 511U, 512U, 513U, 523U, 524U}) {
    std::string header = "<|channel|>analysis ";
    header.resize(size, 'x');
    const std::string output = header + "<|message|>Hm.<|end|>";
    const ParsedOutput whole = Parse(options, output);
    EXPECT_EQ(whole.reasoning, size <= 512 ? "Hm." : "") << size;
    EXPECT_EQ(ParseBytewise(options, output), whole) << size;
  }
}

}  // namespace
}  // namespace dunlin::text
