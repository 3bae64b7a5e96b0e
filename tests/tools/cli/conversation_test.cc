// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/cli/chat_messages.h"

namespace dunlin::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CompletionOutput TextOutput(const std::string& text) {
  CompletionOutput output;
  output.text = text;
  return output;
}

CompletionOutput CallOutput(const std::vector<std::string>& arguments) {
  CompletionOutput output;
  for (const std::string& text : arguments) {
    v1::ToolCall& call = output.tool_calls.emplace_back();
    call.set_id("call-" + std::to_string(output.tool_calls.size()));
    call.set_name("weather");
    call.set_arguments_json(text);
  }
  return output;
}

// "role: content" of each message of a request.
std::vector<std::string> MessagesOf(const Conversation& conversation) {
  v1::Chat chat;
  conversation.AppendTo(&chat);
  std::vector<std::string> messages;
  for (const v1::ChatMessage& message : chat.messages()) messages.push_back(message.role() + ": " + message.content());
  return messages;
}

void AddTurn(const std::string& user, const std::string& answer, Conversation* conversation) {
  conversation->AddUser(user);
  conversation->AddAnswer(TextOutput(answer), /*cut=*/false);
}

TEST(Conversation, SendsTheSystemMessageAndEveryTurn) {
  Conversation conversation;
  conversation.SetSystem("brief");
  AddTurn("a", "b", &conversation);
  conversation.AddUser("c");
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("system: brief", "user: a", "assistant: b", "user: c"));
  conversation.SetSystem("");
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("user: a", "assistant: b", "user: c"));
}

TEST(Conversation, ReplacesAMessageWithoutAnswer) {
  Conversation conversation;
  EXPECT_FALSE(conversation.AddUser("a"));
  EXPECT_TRUE(conversation.AddUser("b"));
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("user: b"));
}

TEST(Conversation, DropAnswerLeavesTheMessageToAnswer) {
  Conversation conversation;
  EXPECT_FALSE(conversation.DropAnswer());
  AddTurn("a", "b", &conversation);
  EXPECT_FALSE(conversation.NeedsAnswer());
  EXPECT_TRUE(conversation.DropAnswer());
  EXPECT_TRUE(conversation.NeedsAnswer());
  EXPECT_TRUE(conversation.DropAnswer()) << "a message without answer is to be answered as it is";
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("user: a"));
}

TEST(Conversation, KeepsWhatCameOfACutAnswer) {
  Conversation conversation;
  conversation.AddUser("a");
  CompletionOutput output = CallOutput({"{}"});
  output.text = "par";
  conversation.AddAnswer(output, /*cut=*/true);
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("user: a", "assistant: par"));
  EXPECT_EQ(conversation.PendingCall(), nullptr) << "a cut answer calls nothing";
  EXPECT_EQ(conversation.ToJson()[1].dump(), R"({"role":"assistant","content":"par","cut":true})");
}

TEST(Conversation, ACutAnswerOfNothingIsNone) {
  Conversation conversation;
  conversation.AddUser("a");
  conversation.AddAnswer(CallOutput({"{\"a\""}), /*cut=*/true);
  EXPECT_TRUE(conversation.NeedsAnswer());
  conversation.AddAnswer(TextOutput(""), /*cut=*/false);
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("user: a", "assistant: "));
}

TEST(Conversation, AsksForAResultOfEachCall) {
  Conversation conversation;
  conversation.AddUser("a");
  conversation.AddAnswer(CallOutput({R"({"city": "Oslo"})", "", "{\"cut"}), /*cut=*/false);
  ASSERT_NE(conversation.PendingCall(), nullptr);
  EXPECT_EQ(conversation.PendingCall()->id(), "call-1");
  EXPECT_FALSE(conversation.NeedsAnswer());
  conversation.AddToolResult("cold");
  ASSERT_NE(conversation.PendingCall(), nullptr);
  EXPECT_EQ(conversation.PendingCall()->id(), "call-2");
  conversation.AddToolResult("warm");
  EXPECT_EQ(conversation.PendingCall(), nullptr) << "arguments that are no object are no call";
  EXPECT_TRUE(conversation.NeedsAnswer());
  v1::Chat chat;
  conversation.AppendTo(&chat);
  ASSERT_EQ(chat.messages_size(), 4);
  EXPECT_FALSE(chat.messages(1).has_content());
  EXPECT_EQ(chat.messages(1).tool_calls_size(), 2);
  EXPECT_EQ(chat.messages(3).tool_call_id(), "call-2");
  EXPECT_EQ(chat.messages(3).content(), "warm");
  EXPECT_TRUE(conversation.DropAnswer()) << "the answer to the results is missing";
  EXPECT_EQ(MessagesOf(conversation).size(), 4U);
}

TEST(Conversation, DropAnswerTakesBackCallsWithoutResults) {
  Conversation conversation;
  conversation.AddUser("a");
  conversation.AddAnswer(CallOutput({"{}", "{}"}), /*cut=*/false);
  conversation.AddToolResult("one");
  EXPECT_TRUE(conversation.DropAnswer());
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("user: a"));
}

TEST(Conversation, UndoAndDropTakeWholeTurns) {
  Conversation conversation;
  conversation.SetSystem("s");
  AddTurn("a", "b", &conversation);
  conversation.AddUser("c");
  conversation.AddAnswer(CallOutput({"{}"}), /*cut=*/false);
  conversation.AddToolResult("r");
  conversation.AddAnswer(TextOutput("d"), /*cut=*/false);
  AddTurn("e", "f", &conversation);
  EXPECT_TRUE(conversation.Undo());
  EXPECT_EQ(MessagesOf(conversation).back(), "assistant: d");
  EXPECT_EQ(conversation.DropOldest(1), 1U);
  EXPECT_THAT(MessagesOf(conversation), ElementsAre("system: s", "user: c", "assistant: ", "tool: r", "assistant: d"));
  EXPECT_TRUE(conversation.Undo());
  EXPECT_FALSE(conversation.Undo());
  EXPECT_EQ(conversation.DropOldest(3), 0U);
  EXPECT_TRUE(conversation.empty());
}

TEST(Conversation, DropOldestReportsWhatThereWas) {
  Conversation conversation;
  AddTurn("a", "b", &conversation);
  AddTurn("c", "d", &conversation);
  EXPECT_EQ(conversation.DropOldest(5), 2U);
  EXPECT_THAT(MessagesOf(conversation), IsEmpty());
}

TEST(Conversation, IsReadBackFromItsJson) {
  Conversation conversation;
  conversation.SetSystem("s");
  conversation.AddUser("a");
  CompletionOutput output = CallOutput({R"({"city": "Oslo"})"});
  output.reasoning = "hm";
  conversation.AddAnswer(output, /*cut=*/false);
  conversation.AddToolResult("cold");
  v1::Chat chat;
  ASSERT_TRUE(AddMessages(conversation.ToJson().dump(), &chat).ok());
  Conversation loaded;
  loaded.Load(chat);
  EXPECT_EQ(loaded.system(), "s");
  EXPECT_EQ(loaded.ToJson().dump(), conversation.ToJson().dump());
  EXPECT_EQ(loaded.ToJson()[2].dump(),
            R"({"role":"assistant","reasoning_content":"hm","tool_calls":[{"id":"call-1","type":"function",)"
            R"("function":{"name":"weather","arguments":"{\"city\": \"Oslo\"}"}}]})");
}

}  // namespace
}  // namespace dunlin::cli
