// SPDX-License-Identifier: Apache-2.0
// `dunlin chat` and `dunlin generate` without a terminal, against a server that replays a script: what they send and
// print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/scripted_server.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandResult RunChat(const ScriptedServer& server, const std::string& input, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"chat", "--address", server.address(), "--model", "scripted"});
  return RunDunlinWithInput(arguments, input);
}

CommandResult RunGenerate(const ScriptedServer& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"generate", "--address", server.address(), "--model", "scripted"});
  return RunDunlin(arguments);
}

// "role: content" of each message.
std::vector<std::string> MessagesOf(const v1::GenerateRequest& request) {
  std::vector<std::string> messages;
  for (const v1::ChatMessage& message : request.chat().messages()) {
    messages.push_back(message.role() + ": " + message.content());
  }
  return messages;
}

TEST(ChatSession, SendsTheWholeConversationEachTurn) {
  ScriptedServer server;
  for (const char* text : {"one", "two"}) server.Add(TextReply(text));
  const CommandResult result = RunChat(server, "Hello\nfirst \\\nsecond\n", {"--system", "brief"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "one\ntwo\n");
  EXPECT_EQ(result.err, "");
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_THAT(MessagesOf(server.requests()[0]), ElementsAre("system: brief", "user: Hello"));
  EXPECT_THAT(MessagesOf(server.requests()[1]),
              ElementsAre("system: brief", "user: Hello", "assistant: one", "user: first \nsecond"));
}

TEST(ChatSession, OptionsReachEveryRequest) {
  ScriptedServer server;
  server.Add(TextReply("a"));
  server.Add(TextReply("b"));
  const CommandResult result = RunChat(
      server, "1\n/seed 9\n2\n",
      {"--max-tokens",
       "7",
       "--seed",
       "3",
       "--temperature",
       "0.5",
       "--precision",
       "fp8",
       "--tools",
       "[]",
       "--template-options",
       R"({"enable_thinking": false})",
       "--tool-choice",
       "none",
       "--regex",
       "a|b",
       "--messages",
       R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "v"}])",
       "--priority",
       "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  ASSERT_EQ(server.requests().size(), 2U);
  for (const v1::GenerateRequest& request : server.requests()) {
    EXPECT_EQ(request.model(), "scripted");
    EXPECT_EQ(request.stopping().max_tokens(), 7);
    EXPECT_EQ(request.execution().precision(), v1::PRECISION_FP8);
    EXPECT_EQ(request.chat().tools_json(), "[]");
    EXPECT_EQ(request.chat().template_options_json(), R"({"enable_thinking": false})");
    EXPECT_EQ(request.chat().tool_choice().mode(), v1::ToolChoice::MODE_NONE);
    EXPECT_EQ(request.structured_output().regex(), "a|b");
    EXPECT_EQ(request.priority(), 2);
  }
  EXPECT_EQ(server.requests()[0].sampling().seed(), 3U);
  EXPECT_EQ(server.requests()[1].sampling().seed(), 9U);
  EXPECT_THAT(MessagesOf(server.requests()[0]), ElementsAre("system: s", "user: u", "assistant: v", "user: 1"));
}

TEST(ChatSession, RegenerateRunsWithTheNewProfile) {
  ScriptedServer server;
  for (const char* text : {"one", "two"}) server.Add(TextReply(text));
  const CommandResult result = RunChat(server, "Hello\n/profile math:fp8\n/regenerate\n/profile\n/history\n");
  EXPECT_EQ(result.status, 0) << result.err;
  ASSERT_EQ(server.requests().size(), 2U);
  const v1::GenerateRequest again = server.requests()[1];
  EXPECT_EQ(again.execution().attention_backend(), v1::ATTENTION_BACKEND_MATH);
  EXPECT_EQ(again.execution().precision(), v1::PRECISION_FP8);
  EXPECT_THAT(MessagesOf(again), ElementsAre("user: Hello"));
  EXPECT_THAT(result.out, HasSubstr("profile math:fp8; the last answer ran {\"device\":\"cpu\","));
  EXPECT_THAT(result.out, HasSubstr(R"([{"role":"user","content":"Hello"},{"role":"assistant","content":"two"}])"));
}

TEST(ChatSession, WrongCommandsSendNothing) {
  const ScriptedServer server;
  for (const char* line :
       {"/nope", "/profile flash", "/profile fast:fp8", "/profile flash:fp4", "/seed -1", "/drop 0", "/regenerate",
        "/undo", "/undo now", "/save", "/save /no/such/folder/file", "/image", "/image /no/such/file"}) {
    const CommandResult result = RunChat(server, std::string(line) + "\n");
    EXPECT_EQ(result.status, 1) << line;
    EXPECT_NE(result.err, "") << line;
  }
  EXPECT_THAT(RunChat(server, "/nope\n").err, HasSubstr("unknown command /nope; /help lists them"));
  EXPECT_THAT(RunChat(server, "/profile fast:fp8\n").err, AllOf(HasSubstr("flash"), HasSubstr("bf16")));
  EXPECT_TRUE(server.requests().empty());
}

TEST(ChatSession, SlashesAndBlocksAreTyped) {
  ScriptedServer server;
  for (int i = 0; i < 3; ++i) server.Add(TextReply("a"));
  EXPECT_EQ(RunChat(server, "//etc\n\n\"\"\"\n/a\n\n b\n\"\"\"\nlast").status, 0);
  ASSERT_EQ(server.requests().size(), 3U);
  EXPECT_EQ(server.requests()[0].chat().messages(0).content(), "/etc");
  EXPECT_EQ(server.requests()[1].chat().messages(2).content(), "/a\n\n b");
  EXPECT_EQ(server.requests()[2].chat().messages(4).content(), "last");
}

TEST(ChatSession, CommandsChangeTheConversation) {
  ScriptedServer server;
  for (const char* text : {"1", "2", "3", "4"}) server.Add(TextReply(text));
  const CommandResult result = RunChat(
      server, "a\nb\nc\n/undo\n/drop\n/system S\n/system\n/history\n/reset\n/system \"\"\n/system\nd\n/exit\nnever\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "1\n2\n3\nS\n"
            R"([{"role":"system","content":"S"},{"role":"user","content":"b"},{"role":"assistant","content":"2"}])"
            "\n(no system message)\n4\n");
  ASSERT_EQ(server.requests().size(), 4U);
  EXPECT_THAT(MessagesOf(server.requests()[3]), ElementsAre("user: d"));
}

TEST(ChatSession, AnImageGoesWithTheNextMessage) {
  ScriptedServer server;
  for (const char* text : {"1", "2"}) server.Add(TextReply(text));
  const std::string path = ::testing::TempDir() + "dunlin_chat_image_test" + std::to_string(getpid());
  std::ofstream(path) << "foo";
  const CommandResult result = RunChat(server, "/image " + path + "\na\nb\n/history\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":)"
                                    R"("data:image;base64,Zm9v"}},{"type":"text","text":"a"}]},)"));
  ASSERT_EQ(server.requests().size(), 2U);
  const v1::Chat chat = server.requests()[1].chat();
  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(0).parts(0).image(), "foo");
  EXPECT_EQ(chat.messages(2).content(), "b") << "it went with one message";
  std::remove(path.c_str());
}

TEST(ChatSession, HelpListsTheCommands) {
  const ScriptedServer server;
  const CommandResult result = RunChat(server, "/help\n");
  for (const char* name : {"/help", "/profile BACKEND:PRECISION", "/seed N", "/regenerate", "/undo", "/drop N",
                           "/reset", "/image FILE", "/system TEXT", "/history", "/save FILE", "/exit", "Ctrl-D"}) {
    EXPECT_THAT(result.out, HasSubstr(name));
  }
}

TEST(ChatSession, ASavedConversationGoesOn) {
  ScriptedServer server;
  for (const char* text : {"1", "2", "3"}) server.Add(TextReply(text));
  const std::string path = ::testing::TempDir() + "dunlin_chat_session_test" + std::to_string(getpid());
  EXPECT_EQ(RunChat(server, "a\n/save " + path + "\n", {"--system", "S"}).status, 0);
  EXPECT_EQ(RunChat(server, "b\n", {"--messages", "@" + path}).status, 0);
  EXPECT_EQ(RunGenerate(server, {"--messages", "@" + path}).status, 0);
  std::remove(path.c_str());
  ASSERT_EQ(server.requests().size(), 3U);
  EXPECT_THAT(MessagesOf(server.requests()[1]), ElementsAre("system: S", "user: a", "assistant: 1", "user: b"));
  EXPECT_THAT(MessagesOf(server.requests()[2]), ElementsAre("system: S", "user: a", "assistant: 1"));
}

TEST(ChatSession, TheNextLineIsTheResultOfACall) {
  ScriptedServer server;
  server.Add(CallReply("call-1", "get_weather", R"({"city": "Oslo"})"));
  server.Add(CallReply("call-2", "get_weather", "{}"));
  server.Add(TextReply("cold"));
  const CommandResult result = RunChat(server, "Weather?\n{\"temperature\": -3}\n\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, R"({"id":"call-1","name":"get_weather","arguments":"{\"city\": \"Oslo\"}"})"
                        "\n"
                        R"({"id":"call-2","name":"get_weather","arguments":"{}"})"
                        "\ncold\n");
  ASSERT_EQ(server.requests().size(), 3U);
  const v1::Chat chat = server.requests()[2].chat();
  ASSERT_EQ(chat.messages_size(), 5);
  EXPECT_EQ(chat.messages(1).tool_calls(0).arguments_json(), R"({"city": "Oslo"})");
  EXPECT_EQ(chat.messages(2).role(), "tool");
  EXPECT_EQ(chat.messages(2).tool_call_id(), "call-1");
  EXPECT_EQ(chat.messages(2).content(), "{\"temperature\": -3}");
  EXPECT_EQ(chat.messages(4).content(), "error: the tool gave no result");
}

TEST(ChatSession, ReasoningIsSentAndNotPrinted) {
  ScriptedServer server;
  Reply reply = TextReply("yes");
  reply.responses.insert(reply.responses.begin(), ReasoningResponse("hm"));
  server.Add(reply);
  server.Add(TextReply("no"));
  EXPECT_EQ(RunChat(server, "a\nb\n").out, "yes\nno\n");
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests()[1].chat().messages(1).reasoning_content(), "hm");
}

TEST(ChatSession, AFailedCallIsReportedAndCanBeRepeated) {
  ScriptedServer server;
  server.Add({.responses = {}, .status = {grpc::StatusCode::INVALID_ARGUMENT, "chat has 9 tokens; limit is 8"}});
  server.Add({.responses = {TextResponse("par")}, .status = {grpc::StatusCode::UNAVAILABLE, "draining"}});
  server.Add(TextReply("whole"));
  const CommandResult result = RunChat(server, "a\n/regenerate\n/history\n/regenerate\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "INVALID_ARGUMENT: chat has 9 tokens; limit is 8\nUNAVAILABLE: draining\n");
  EXPECT_EQ(result.out,
            "par\n"
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"par","cut":true}])"
            "\nwhole\n");
  ASSERT_EQ(server.requests().size(), 3U);
  for (const v1::GenerateRequest& request : server.requests()) EXPECT_THAT(MessagesOf(request), ElementsAre("user: a"));
}

TEST(ChatSession, AServerThatIsGoneIsReported) {
  std::string address;
  {
    const ScriptedServer gone;
    address = gone.address();
  }
  const CommandResult named = RunDunlinWithInput({"chat", "--address", address, "--model", "m"}, "a\n/history\n");
  EXPECT_EQ(named.status, 1);
  EXPECT_THAT(named.err, HasSubstr("UNAVAILABLE: "));
  EXPECT_EQ(named.out, "[{\"role\":\"user\",\"content\":\"a\"}]\n");
  const CommandResult unnamed = RunDunlinWithInput({"chat", "--address", address}, "a\n");
  EXPECT_EQ(unnamed.status, 1);
  EXPECT_THAT(unnamed.err, HasSubstr("UNAVAILABLE: "));
}

TEST(ChatSession, TheOnlyModelThatGeneratesNeedsNoName) {
  ScriptedServer one({"encoder-a", "small"});
  one.Add(TextReply("a"));
  EXPECT_EQ(RunDunlinWithInput({"chat", "--address", one.address()}, "a\n").out, "a\n");
  EXPECT_EQ(one.requests().at(0).model(), "small");
  const ScriptedServer two({"small", "large"});
  const CommandResult which = RunDunlinWithInput({"chat", "--address", two.address()}, "a\n");
  EXPECT_EQ(which.status, 2);
  EXPECT_THAT(which.err, HasSubstr("give --model; the server has small, large"));
  const ScriptedServer none({"encoder-a"});
  const CommandResult nothing = RunDunlinWithInput({"chat", "--address", none.address()}, "a\n");
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("the server has no model that generates"));
}

TEST(ChatSession, UsageErrorsComeBeforeAnyCall) {
  const ScriptedServer server;
  EXPECT_EQ(RunChat(server, "a\n", {"--tools", "[]", "--tool-choice", "f", "--regex", "a"}).status, 2);
  EXPECT_EQ(RunChat(server, "a\n", {"--messages", "{"}).status, 2);
  EXPECT_EQ(RunChat(server, "a\n", {"--tools", "@/no/such/file"}).status, 2);
  EXPECT_EQ(RunChat(server, "a\n", {"--json-object", "--choice", "a"}).status, 2);
  EXPECT_TRUE(server.requests().empty());
}

TEST(ChatSession, SaysThatAConstraintLeftNoWayOn) {
  ScriptedServer server;
  Reply reply = TextReply("{");
  reply.responses.back().mutable_finish()->set_reason(v1::FINISH_REASON_CONSTRAINT);
  server.Add(reply);
  const CommandResult result = RunChat(server, "a\n", {"--json-object"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "{\n");
  EXPECT_EQ(result.err, "the output may be incomplete: finish reason constraint\n");
}

TEST(ChatSession, TextThatIsNoUtf8IsNotSent) {
  const ScriptedServer server;
  const CommandResult result = RunChat(server, "\xff\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("UTF-8"));
  EXPECT_TRUE(server.requests().empty());
}

TEST(GenerateScripted, JsonHasReasoningCallsAndTheFinishReason) {
  ScriptedServer server;
  Reply reply = CallReply("1", "f", "{}");
  reply.responses.insert(reply.responses.begin(), ReasoningResponse("hm"));
  server.Add(reply);
  const Json json = Json::parse(RunGenerate(server, {"--chat", "--json", "Hi"}).out, nullptr, false);
  EXPECT_EQ(json["reasoning"], "hm");
  EXPECT_EQ(json["tool_calls"].dump(), R"([{"arguments":"{}","id":"1","name":"f"}])");
  EXPECT_EQ(json["finish"]["reason"], "tool_calls");
}

TEST(GenerateScripted, SaysThatAConstrainedOutputIsIncomplete) {
  ScriptedServer server;
  Reply reply = TextReply("{\"a\"");
  reply.responses.back().mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
  server.Add(reply);
  server.Add(reply);
  const CommandResult result = RunGenerate(server, {"--json-object", "Hi"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "{\"a\"\n");
  EXPECT_EQ(result.err, "the output may be incomplete: finish reason length\n");
  EXPECT_EQ(RunGenerate(server, {"Hi"}).err, "") << "a text may end anywhere";
}

TEST(GenerateScripted, TheAddressMayComeFromTheEnvironment) {
  ScriptedServer server;
  server.Add(TextReply("a"));
  setenv("DUNLIN_ADDRESS", server.address().c_str(), 1);
  const CommandResult result = RunDunlin({"generate", "--model", "scripted", "Hi"});
  unsetenv("DUNLIN_ADDRESS");
  EXPECT_EQ(result.out, "a\n") << result.err;
}

}  // namespace
}  // namespace dunlin::integration
