// SPDX-License-Identifier: Apache-2.0
// The texts of the grammars. What they allow is tested where they are compiled.
#include "text/chat_output/call_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/string_view.h"
#include "tests/text/chat_output/parsed_output.h"

namespace dunlin::text {
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
  return ToolCallGrammar(FormsNamed("none", form), request, "")->text;
}

TEST(CallGrammar, EveryFormNamesEveryFunctionAndRefersToSchemas) {
  for (const ToolFormat& format : ToolFormats()) {
    const absl::StatusOr<GrammarSource> made = ToolCallGrammar(FormsNamed("none", format.name), AllTools(), "");
    ASSERT_TRUE(made.ok()) << made.status();
    const GrammarSource& source = *made;
    EXPECT_EQ(source.kind, GrammarKind::kComposed);
    EXPECT_THAT(source.text, StartsWith("start: ")) << format.name;
    EXPECT_THAT(source.text, HasSubstr("\ncalls: ")) << format.name;
    for (const char* name : {"get_weather", "ping", "find.birds"}) {
      EXPECT_THAT(source.text, HasSubstr(name)) << format.name;
    }
    for (size_t i = 0; i < source.parts.size(); ++i) {
      EXPECT_THAT(source.text, HasSubstr("@part_" + std::to_string(i))) << format.name;
      EXPECT_EQ(source.parts[i].kind, GrammarKind::kJsonSchema);
      EXPECT_TRUE(nlohmann::json::parse(source.parts[i].text).is_object());
    }
    EXPECT_GE(source.parts.size(), 3U) << format.name;
  }
}

TEST(CallGrammar, AllowsOneCallOrSeveral) {
  CallGrammar request = AllTools();
  EXPECT_THAT(CallsOf("hermes", request), HasSubstr(")*"));
  request.several = false;
  for (const ToolFormat& format : ToolFormats()) {
    if (format.frame != OutputFrame::kNone) continue;  // whose messages of reasoning may be several
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
            "args_0: @part_0\n");
}

TEST(CallGrammar, LetsTheModelThinkFirst) {
  const CallGrammar request = AllTools();
  const ChatOutputForms forms = FormsNamed("qwen3", "hermes");
  EXPECT_THAT(ToolCallGrammar(forms, request, "")->text,
              HasSubstr("start: thinking calls\nthinking: (\"<think>\" thought gap)?\nthought[suffix=\"</think>\"]: "));
  EXPECT_THAT(ToolCallGrammar(forms, request, "<think>\n")->text, HasSubstr("thinking: thought gap\n"));
  EXPECT_THAT(CallsOf("gpt_oss", request), HasSubstr("thinking: (\"<|channel|>analysis<|message|>\" thought "));
}

TEST(AfterReasoning, LeavesAGrammarAloneWhereNoReasoningCanCome) {
  const GrammarSource source = {GrammarKind::kRegex, "a+", {}};
  EXPECT_EQ(AfterReasoning(source, nullptr, nullptr, ""), source);
}

TEST(AfterReasoning, MakesTheGrammarAPart) {
  const GrammarSource sources[] = {{GrammarKind::kJsonSchema, "{\"type\": \"integer\"}", {}},
                                   {GrammarKind::kJsonObject, "", {}},
                                   {GrammarKind::kRegex, "a/b", {}},
                                   {GrammarKind::kChoice, "", {"yes", "no"}},
                                   {GrammarKind::kGrammar, "root ::= \"x\"", {}}};
  for (const GrammarSource& source : sources) {
    const GrammarSource after = AfterReasoning(source, FindReasoningFormat("qwen3"), nullptr, "<think>");
    EXPECT_EQ(after.kind, GrammarKind::kComposed);
    EXPECT_THAT(after.text, StartsWith("start: thinking @part_0\nthinking: thought gap\n"));
    ASSERT_EQ(after.parts.size(), 1U);
    EXPECT_EQ(after.parts[0], source);
  }
  const GrammarSource harmony = AfterReasoning(sources[1], FindReasoningFormat("gpt_oss"), nullptr, "");
  EXPECT_THAT(harmony.text, StartsWith("start: thinking \"<|channel|>final<|message|>\" @part_0\n"));
  const GrammarSource muse = AfterReasoning(sources[1], FindReasoningFormat("muse_glimmer"), nullptr, "");
  EXPECT_THAT(muse.text, StartsWith("start: thinking \" to=user<|message|>\" @part_0\n"));
}

}  // namespace
}  // namespace dunlin::text
