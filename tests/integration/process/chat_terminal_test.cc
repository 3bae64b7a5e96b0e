// SPDX-License-Identifier: Apache-2.0
// `dunlin chat` and `dunlin generate` on a terminal: Ctrl-C and Ctrl-D, dimmed reasoning, escapes, prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/integration/process/scripted_server.h"
#include "tests/integration/process/terminal_command.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> ChatWith(const ScriptedServer& server) {
  return {"chat", "--address", server.address(), "--model", "scripted"};
}

// Removed of the screen: what the terminal makes of line breaks.
std::string Plain(const TerminalCommand& command) {
  std::string text;
  for (const char character : command.screen()) {
    if (character != '\r') text += character;
  }
  return text;
}

TEST(ChatTerminal, CtrlCStopsTheAnswerAndNotTheProgram) {
  ScriptedServer server;
  server.Add({.responses = {TextResponse("a begin")}, .status = {}, .until_cancelled = true});
  server.Add(TextReply("a whole"));
  TerminalCommand chat(ChatWith(server));
  ASSERT_TRUE(chat.Shows("Chatting with scripted.")) << chat.screen();
  chat.Type("Hi\n");
  ASSERT_TRUE(chat.Shows("a begin")) << chat.screen();
  chat.Type(kCtrlC);
  ASSERT_TRUE(chat.Shows("(stopped; what came is kept, /regenerate answers again)")) << chat.screen();
  chat.Type("/history\n");
  ASSERT_TRUE(chat.Shows("\"content\": \"a begin\"")) << chat.screen();
  ASSERT_TRUE(chat.Shows("\"cut\": true")) << chat.screen();
  chat.Type("/regenerate\n");
  ASSERT_TRUE(chat.Shows("a whole")) << chat.screen();
  ASSERT_TRUE(chat.Shows("[flash bf16 cpu | ")) << chat.screen();
  chat.Type("/exit\n");
  EXPECT_EQ(chat.Wait(), 0);
  EXPECT_TRUE(server.ComesToCancelled(1));
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests()[1].chat().messages_size(), 1);
}

TEST(ChatTerminal, CtrlCBeforeAnyTextLeavesTheMessageUnanswered) {
  ScriptedServer server;
  server.Add({.responses = {}, .status = {}, .until_cancelled = true});
  server.Add(TextReply("answer"));
  TerminalCommand chat(ChatWith(server));
  chat.Type("one\n");
  ASSERT_TRUE(server.ComesToRequests(1));
  chat.Type(kCtrlC);
  ASSERT_TRUE(chat.Shows("(stopped before an answer; /regenerate asks again)")) << chat.screen();
  chat.Type("two\n");
  ASSERT_TRUE(chat.Shows("(replaces the message before, which has no answer)")) << chat.screen();
  ASSERT_TRUE(chat.Shows("answer")) << chat.screen();
  ASSERT_EQ(server.requests().size(), 2U);
  ASSERT_EQ(server.requests()[1].chat().messages_size(), 1);
  EXPECT_EQ(server.requests()[1].chat().messages(0).content(), "two");
}

TEST(ChatTerminal, CtrlCAtThePromptDropsTheLineAndTwiceEnds) {
  ScriptedServer server;
  server.Add(TextReply("answer"));
  TerminalCommand chat(ChatWith(server));
  ASSERT_TRUE(chat.Shows("> ")) << chat.screen();
  chat.Type("dropped");
  chat.Type(kCtrlC);
  ASSERT_TRUE(chat.Shows("(Ctrl-C again, Ctrl-D or /exit ends)\r\n> ")) << chat.screen();
  chat.Type("kept\n");
  ASSERT_TRUE(chat.Shows("answer")) << chat.screen();
  ASSERT_TRUE(chat.Shows("\n> ")) << chat.screen();
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_EQ(server.requests()[0].chat().messages(0).content(), "kept");
  chat.Type(kCtrlC);
  ASSERT_TRUE(chat.Shows("ends)\r\n> ")) << "a line came between them: " << chat.screen();
  chat.Type(kCtrlC);
  EXPECT_EQ(chat.Wait(), 0) << chat.screen();
}

TEST(ChatTerminal, CtrlDEndsAndSigtermToo) {
  const ScriptedServer server;
  TerminalCommand ended(ChatWith(server));
  ASSERT_TRUE(ended.Shows("> ")) << ended.screen();
  ended.Type(kCtrlD);
  EXPECT_EQ(ended.Wait(), 0);
  TerminalCommand terminated(ChatWith(server));
  ASSERT_TRUE(terminated.Shows("> ")) << terminated.screen();
  terminated.Signal(SIGTERM);
  EXPECT_EQ(terminated.Wait(), 128 + SIGTERM);
}

TEST(ChatTerminal, ReasoningIsDimmedAndEscapesAreShown) {
  ScriptedServer server;
  Reply reply = TextReply("clear\x1b]0;title\x07 \xc2\x9b\r.");
  reply.responses.insert(reply.responses.begin(), ReasoningResponse("hm\x1b[31m"));
  server.Add(reply);
  TerminalCommand chat(ChatWith(server));
  chat.Type("Hi\n");
  ASSERT_TRUE(chat.Shows("tok/s]")) << chat.screen();
  EXPECT_THAT(Plain(chat), HasSubstr("\x1b[2mhm\\u001b[31m\x1b[22m\n\nclear\\u001b]0;title\\u0007 \\u009b\\u000d.\n"));
  EXPECT_THAT(chat.screen(), HasSubstr("\x1b[2m[flash bf16 cpu"));
}

TEST(ChatTerminal, NoColorLeavesNoEscapeSequence) {
  ScriptedServer server;
  Reply reply = TextReply("answer");
  reply.responses.insert(reply.responses.begin(), ReasoningResponse("hm"));
  server.Add(reply);
  TerminalCommand chat(ChatWith(server), {"NO_COLOR=1"});
  chat.Type("Hi\n");
  ASSERT_TRUE(chat.Shows("tok/s]")) << chat.screen();
  EXPECT_THAT(Plain(chat), HasSubstr("hm\n\nanswer\n"));
  EXPECT_THAT(chat.screen(), Not(HasSubstr("\x1b")));
}

TEST(ChatTerminal, QuietLeavesOutTheLineAfterAnAnswer) {
  ScriptedServer server;
  server.Add(TextReply("answer"));
  std::vector<std::string> arguments = ChatWith(server);
  arguments.emplace_back("--quiet");
  TerminalCommand chat(arguments);
  chat.Type("Hi\n");
  ASSERT_TRUE(chat.Shows("answer\r\n> ")) << chat.screen();
}

TEST(ChatTerminal, AsksForTheResultsOfCalls) {
  ScriptedServer server;
  server.Add(CallReply("1", "get_weather", R"({"city": "Oslo"})"));
  server.Add(TextReply("It is cold."));
  server.Add(CallReply("2", "get_weather", "{}"));
  TerminalCommand chat(ChatWith(server));
  chat.Type("Weather?\n");
  ASSERT_TRUE(chat.Shows("tool result for get_weather> ")) << chat.screen();
  chat.Type("-3\n");
  ASSERT_TRUE(chat.Shows("It is cold.")) << chat.screen();
  chat.Type("And now?\n");
  ASSERT_TRUE(chat.Shows("tool result for get_weather> ")) << chat.screen();
  chat.Type(kCtrlC);
  ASSERT_TRUE(chat.Shows("(the calls are dropped; /regenerate asks again)")) << chat.screen();
  chat.Type("/history\n");
  ASSERT_TRUE(chat.Shows("\"content\": \"And now?\"\r\n  }\r\n]")) << chat.screen();
}

TEST(ChatTerminal, AFailedCallKeepsTheConversation) {
  ScriptedServer server;
  server.Add({.responses = {}, .status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "queue\x1b[2J is full"}});
  server.Add(TextReply("answer"));
  TerminalCommand chat(ChatWith(server));
  chat.Type("Hi\n");
  ASSERT_TRUE(chat.Shows("RESOURCE_EXHAUSTED: queue\\u001b[2J is full")) << chat.screen();
  ASSERT_TRUE(chat.Shows("/regenerate asks again")) << chat.screen();
  chat.Type("/regenerate\n");
  ASSERT_TRUE(chat.Shows("answer")) << chat.screen();
  chat.Type(kCtrlD);
  EXPECT_EQ(chat.Wait(), 0) << "who types has seen the error";
}

TEST(GenerateTerminal, DimsReasoningAndShowsEscapes) {
  ScriptedServer server;
  Reply reply = TextReply("a\x1b[2Jb");
  reply.responses.insert(reply.responses.begin(), ReasoningResponse("hm"));
  server.Add(reply);
  server.Add(reply);
  TerminalCommand text({"generate", "--address", server.address(), "--model", "scripted", "--chat", "Hi"});
  EXPECT_EQ(text.Wait(), 0);
  EXPECT_EQ(Plain(text), "\x1b[2mhm\x1b[22m\n\na\\u001b[2Jb\n");
  TerminalCommand json({"generate", "--address", server.address(), "--model", "scripted", "--chat", "--json", "Hi"});
  EXPECT_EQ(json.Wait(), 0);
  EXPECT_THAT(json.screen(), HasSubstr(R"("text":"a\u001b[2Jb","reasoning":"hm")"));
}

}  // namespace
}  // namespace dunlin::integration
