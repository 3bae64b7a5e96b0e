// SPDX-License-Identifier: Apache-2.0
// The texts of the grammars. What they allow is tested where they are compiled.
#include "engine/chat_output/call_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/string_view.h"
#include "tests/engine/chat_output/parsed_output.h"

namespace dunlin::engine {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

CallGrammar AllTools() {
  CallGrammar request;
  for (const ToolSet::Tool& tool : TestTools().tools()) request.tools.push_back(&tool);
  return request;
}

std::string CallsOf(const std::string& form, const CallGrammar& request) {
  return ToolCallGrammar(FormsNamed("none", form), request, "").text;
}

TEST(CallGrammar, EveryFormNamesEveryFunctionAndItsSchema) {
  for (const ToolFormat& format : ToolFormats()) {
    const std::string lark = CallsOf(format.name, AllTools());
    EXPECT_THAT(lark, StartsWith("start: ")) << format.name;
    for (const char* name : {"get_weather", "ping", "find.birds"}) EXPECT_THAT(lark, HasSubstr(name)) << format.name;
    EXPECT_THAT(lark, HasSubstr("%json {\"type\":\"")) << format.name;
    EXPECT_THAT(lark, HasSubstr("\ncalls: ")) << format.name;
  }
}

TEST(CallGrammar, AllowsOneCallOrSeveral) {
  CallGrammar request = AllTools();
  EXPECT_THAT(CallsOf("hermes", request), HasSubstr(")*"));
  request.several = false;
  for (const ToolFormat& format : ToolFormats()) {
    if (format.make_reader == nullptr) continue;
    EXPECT_THAT(CallsOf(format.name, request), Not(HasSubstr(")*\n"))) << format.name;
  }
}

TEST(CallGrammar, HermesIsWrittenAsTheModelWritesIt) {
  CallGrammar request;
  request.tools = {TestTools().Find("ping")};
  EXPECT_EQ(CallsOf("hermes", request),
            "start: calls\n"
            R"(calls: "<tool_call>" "\n" call "\n" "</tool_call>" ("\n" "<tool_call>" "\n" call "\n" "</tool_call>")*)"
            "\n"
            "call: call_0\n"
            R"(call_0: "{\"name\": \"ping\", \"arguments\": " args_0 "}")"
            "\n"
            "args_0: %json {\"type\":\"object\"}\n");
}

TEST(CallGrammar, LetsTheModelThinkFirst) {
  const CallGrammar request = AllTools();
  const ChatOutputForms forms = FormsNamed("qwen3", "hermes");
  EXPECT_THAT(ToolCallGrammar(forms, request, "").text,
              HasSubstr("start: thinking calls\nthinking: (\"<think>\" thought gap)?\nthought[suffix=\"</think>\"]: "));
  EXPECT_THAT(ToolCallGrammar(forms, request, "<think>\n").text, HasSubstr("thinking: thought gap\n"));
  EXPECT_THAT(CallsOf("gpt_oss", request), HasSubstr("\"analysis\""));
}

TEST(AfterReasoning, LeavesAGrammarAloneWhereNoReasoningCanCome) {
  const GrammarSource source = {GrammarKind::kRegex, "a+", {}};
  const auto same = AfterReasoning(source, nullptr, nullptr, "");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, source);
}

TEST(AfterReasoning, TakesEveryKind) {
  const ReasoningFormat* qwen = FindReasoningFormat("qwen3");
  const std::pair<GrammarSource, const char*> rows[] = {
      {{GrammarKind::kJsonSchema, "{\"type\": \"integer\"}", {}}, "answer: %json {\"type\": \"integer\"}\n"},
      {{GrammarKind::kJsonObject, "", {}}, "answer: %json {\"type\": \"object\"}\n"},
      {{GrammarKind::kRegex, "a/b\\/c\n", {}}, "answer: /a\\/b\\/c\\n/\n"},
      {{GrammarKind::kChoice, "", {"yes", "\"no\""}}, "answer: \"yes\" | \"\\\"no\\\"\"\n"},
      {{GrammarKind::kGrammar, "start: \"x\"", {}}, "answer: %lark {\nstart: \"x\"\n}\n"},
  };
  for (const auto& [source, body] : rows) {
    const auto wrapped = AfterReasoning(source, qwen, nullptr, "");
    ASSERT_TRUE(wrapped.ok());
    EXPECT_EQ(wrapped->kind, GrammarKind::kGrammar);
    EXPECT_THAT(wrapped->text, HasSubstr(body));
  }
  const auto harmony = AfterReasoning(rows[1].first, FindReasoningFormat("gpt_oss"), nullptr, "");
  EXPECT_THAT(harmony->text, HasSubstr("thinking \"<|channel|>\" \"final\" \"<|message|>\" answer\n"));
  const auto gbnf = AfterReasoning({GrammarKind::kGrammar, "root ::= \"x\"", {}}, qwen, nullptr, "");
  EXPECT_TRUE(absl::IsInvalidArgument(gbnf.status()));
}

}  // namespace
}  // namespace dunlin::engine
