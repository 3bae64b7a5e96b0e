// SPDX-License-Identifier: Apache-2.0
// What reaches a terminal of a model's output.
#include "tools/cli/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tools/cli/answer_printer.h"

namespace dunlin::cli {
namespace {

constexpr TerminalStyle kFile = {};
constexpr TerminalStyle kPlain = {.terminal = true, .color = false};
constexpr TerminalStyle kColor = {.terminal = true, .color = true};

TEST(Terminal, ControlCharactersAreShown) {
  EXPECT_EQ(Shown("a\tb\nc \x1b[31m\x07\r\x7f", kPlain), "a\tb\nc \\u001b[31m\\u0007\\u000d\\u007f");
  EXPECT_EQ(Shown("\xc2\x9b"
                  "2J \xe2\x80\xae"
                  "x \xe2\x81\xa6",
                  kPlain),
            "\\u009b2J \\u202ex \\u2066");
  EXPECT_EQ(Shown(std::string("\0", 1), kPlain), "\\u0000");
}

TEST(Terminal, TextStaysAsItIs) {
  const std::string text = "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\xa6 \xc2\xa0";
  EXPECT_EQ(Shown(text, kPlain), text);
  EXPECT_EQ(Shown("\x1b[0m", kFile), "\x1b[0m") << "files get the bytes";
}

TEST(Terminal, StrayBytesDriveNothing) {
  EXPECT_EQ(Shown("\x9b"
                  "2J",
                  kPlain),
            "\\u009b2J");
  EXPECT_EQ(Shown("\xe2\x1b[m", kPlain), "\xe2\\u001b[m");
  EXPECT_EQ(Shown("\xf0\x9f", kPlain), "\xf0\\u009f");
}

TEST(Terminal, DimsOnlyWithColors) {
  EXPECT_EQ(Dimmed("a\x1b", kColor), "\x1b[2ma\\u001b\x1b[22m");
  EXPECT_EQ(Dimmed("a", kPlain), "a");
  EXPECT_EQ(Dimmed("a", kFile), "a");
  EXPECT_EQ(Dimmed("", kColor), "");
}

std::string Printed(const TerminalStyle& style, const std::vector<v1::GenerateResponse>& responses) {
  std::ostringstream out;
  AnswerPrinter printer(&out, style);
  Completion completion;
  for (const v1::GenerateResponse& response : responses) {
    completion.Add(response);
    printer.Add(response);
  }
  printer.End(completion.outputs[0]);
  return out.str();
}

v1::GenerateResponse Response(const std::string& reasoning, const std::string& text, int index = 0) {
  v1::GenerateResponse response;
  response.set_reasoning_delta(reasoning);
  response.set_text_delta(text);
  response.set_index(index);
  return response;
}

v1::GenerateResponse CallResponse(const std::string& name, const std::string& arguments) {
  v1::GenerateResponse response;
  v1::ToolCallDelta* call = response.add_tool_call_delta();
  call->set_name(name);
  call->set_id(name.empty() ? "" : "1");
  call->set_arguments_delta(arguments);
  return response;
}

TEST(AnswerPrinter, ReasoningIsForTerminals) {
  const std::vector<v1::GenerateResponse> responses = {Response("hm", ""), Response(" so", ""), Response("", "yes"),
                                                       Response("", "other", 1)};
  EXPECT_EQ(Printed(kFile, responses), "yes\n");
  EXPECT_EQ(Printed(kPlain, responses), "hm so\n\nyes\n");
  EXPECT_EQ(Printed(kColor, responses), "\x1b[2mhm\x1b[22m\x1b[2m so\x1b[22m\n\nyes\n");
  EXPECT_EQ(Printed(kPlain, {Response("hm\n", "yes")}), "hm\n\nyes\n");
}

TEST(AnswerPrinter, CallsAreLinesOfJson) {
  const std::vector<v1::GenerateResponse> calls = {CallResponse("f", "{\"a\""), CallResponse("", ": 1}")};
  const std::string line = R"({"id":"1","name":"f","arguments":"{\"a\": 1}"})"
                           "\n";
  EXPECT_EQ(Printed(kFile, calls), line);
  std::vector<v1::GenerateResponse> both = {Response("", "I ask.")};
  both.insert(both.end(), calls.begin(), calls.end());
  EXPECT_EQ(Printed(kFile, both), "I ask.\n" + line);
  EXPECT_EQ(Printed(kPlain, {CallResponse("\x7f", "")}), R"({"id":"1","name":"\u007f","arguments":""})"
                                                         "\n");
}

TEST(AnswerPrinter, AnEmptyAnswerIsAnEmptyLine) {
  EXPECT_EQ(Printed(kFile, {}), "\n");
}

}  // namespace
}  // namespace dunlin::cli
