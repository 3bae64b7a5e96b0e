// SPDX-License-Identifier: Apache-2.0
// A chat to its prompt: a table of bounds for every field, what a model without a template answers, special tokens by
// permission only.
#include "server/serving/chat/chat_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/string_view.h"
#include "server/serving/chat/check_chat.h"
#include "server/serving/generation/generation_plan.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;
using text::ChatInput;

ChatInput User(const std::string& content) {
  ChatInput chat;
  chat.messages.emplace_back().role = "user";
  chat.messages[0].content = content;
  return chat;
}

struct BadChat {
  const char* name;
  void (*spoil)(ChatInput*);
  const char* message;
};

constexpr BadChat kBadChats[] = {
    {"no messages", [](ChatInput* c) { c->messages.clear(); }, "messages has 0 entries; limit is 1 or more"},
    {"too many messages", [](ChatInput* c) { c->messages.resize(4097, c->messages[0]); },
     "messages has 4097 entries; limit is 4096"},
    {"too many bytes", [](ChatInput* c) { c->messages[0].content = std::string(4U << 20U, 'x'); },
     "chat has 4194308 bytes; limit is 1 to 4194304"},
    {"no role", [](ChatInput* c) { c->messages[0].role = ""; },
     "messages[0].role is \"\"; limit is 1 to 64 letters, digits, '_', '-' or '.'"},
    {"a role that writes tokens", [](ChatInput* c) { c->messages[0].role = "user|>"; },
     "messages[0].role is \"user|>\"; limit is 1 to 64 letters, digits, '_', '-' or '.'"},
    {"content and parts",
     [](ChatInput* c) {
       c->messages[0].parts.push_back({"text", "x"});
     },
     "messages[0].content is given besides parts; limit is one of the two"},
    {"an image",
     [](ChatInput* c) {
       c->messages[0].content.reset();
       c->messages[0].parts = {{"text", "x"}, {"image_url", ""}};
     },
     "messages[0].parts[1].type is \"image_url\"; limit is \"text\", or \"image\" where the model sees images"},
    {"too many parts",
     [](ChatInput* c) {
       c->messages[0].content.reset();
       c->messages[0].parts.resize(1025, {"text", "x"});
     },
     "messages[0].parts has 1025 entries; limit is 1024"},
    {"not UTF-8", [](ChatInput* c) { c->messages[0].content = "\xFF"; }, "messages[0].content is not UTF-8"},
    {"too many calls",
     [](ChatInput* c) {
       c->messages[0].tool_calls.resize(257, {"", "f", ""});
     },
     "messages[0].tool_calls has 257 entries; limit is 256"},
    {"a call of nothing", [](ChatInput* c) { c->messages[0].tool_calls.resize(1); },
     "messages[0].tool_calls[0].name is empty; limit is the name of a function"},
    {"arguments that are a list",
     [](ChatInput* c) {
       c->messages[0].tool_calls = {{"", "f", ""}, {"", "f", "[1]"}};
     },
     "messages[0].tool_calls[1].arguments_json is a JSON array; limit is an object"},
    {"arguments that are no JSON",
     [](ChatInput* c) {
       c->messages[0].tool_calls = {{"", "f", "{"}};
     },
     "messages[0].tool_calls[0].arguments_json is not JSON"},
    {"arguments with a key twice, cut short",
     [](ChatInput* c) {
       c->messages[0].tool_calls = {{"", "f", R"({"a": {"b": 1, "b": 2})"}};
     },
     "messages[0].tool_calls[0].arguments_json is not JSON"},
    {"arguments before a NUL byte",
     [](ChatInput* c) {
       c->messages[0].tool_calls = {{"", "f", std::string("{}\0]", 4)}};
     },
     "messages[0].tool_calls[0].arguments_json is not JSON"},
    {"extra fields with a key twice", [](ChatInput* c) { c->messages[0].extra_fields_json = R"({"a": 1, "a": 1})"; },
     "messages[0].extra_fields_json has a twice"},
    {"tools with a key twice", [](ChatInput* c) { c->tools_json = R"([{}, {"name": "f", "name": "g"}])"; },
     "tools_json has [1].name twice"},
    {"options with a key twice", [](ChatInput* c) { c->template_options_json = R"({"a": 1, "b": 2, "a": 3})"; },
     "template_options_json has a twice"},
    {"own fields", [](ChatInput* c) { c->messages[0].extra_fields_json = R"({"role": "a|>b"})"; },
     "messages[0].extra_fields_json has \"role\"; limit is names without a field of their own"},
    {"extra fields", [](ChatInput* c) { c->messages[0].extra_fields_json = "7"; },
     "messages[0].extra_fields_json is a JSON number; limit is an object"},
    {"tools that are an object", [](ChatInput* c) { c->tools_json = "{}"; },
     "tools_json is not a JSON list of objects; limit is a list of function definitions"},
    {"deep tools", [](ChatInput* c) { c->tools_json = std::string(9999, '[') + std::string(9999, ']'); },
     "tools_json is nested deeper than 64; limit is 64"},
    {"many tools",
     [](ChatInput* c) {
       c->tools_json = "[{}";
       for (int i = 1; i < 300'000; ++i) c->tools_json += ",{}";
       c->tools_json += "]";
     },
     "tools_json has 300000 entries; limit is 1024"},
    {"options", [](ChatInput* c) { c->template_options_json = "[]"; },
     "template_options_json is a JSON array; limit is an object"},
    {"both endings", [](ChatInput* c) { c->continue_final_message = true; },
     "continue_final_message excludes add_generation_prompt; limit is one of the two"},
    {"special tokens", [](ChatInput* c) { c->parse_special_tokens = true; },
     "parse_special_tokens is true; limit is false (models[].chat_special_tokens)"},
};

class ChatPromptTest : public testing::Test {
 protected:
  ChatPromptTest() : models_(engine::EngineOptions()), core_({}, models_.repository(), nullptr, {}) {}

  absl::StatusOr<GenerationPlan> Plan(const ChatInput& chat) {
    ClientRequest request;
    request.model = "tiny";
    request.prompt = chat;
    return PlanGeneration(request, core_, &record_);
  }

  TestModels models_;
  ServingCore core_;
  RequestRecord record_;
};

TEST_F(ChatPromptTest, IsWhatTheTemplateWritesWithItsTokens) {
  ChatInput chat = User("Hello, world!");
  chat.tools_json = R"([{"name": "f"}])";
  const auto prompt = MakeChatPrompt(core_, models_.model("tiny"), chat, SIZE_MAX, kPlainFieldNames);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->text, "user: Hello, world!<|endoftext|>[1]assistant:");
  const auto plan = Plan(chat);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->request.prompt, prompt->token_ids);
  const text::Tokenizer& tokenizer = *models_.model("tiny").tokenizer;
  EXPECT_EQ(prompt->token_ids, *tokenizer.Encode(prompt->text, {.add_special_tokens = false, .parse_special = true}));
}

TEST_F(ChatPromptTest, EveryBadFieldIsNamedWithItsLimit) {
  for (const BadChat& bad : kBadChats) {
    ChatInput chat = User("hi");
    bad.spoil(&chat);
    const absl::Status status = Plan(chat).status();
    EXPECT_EQ(status.message(), bad.message) << bad.name;
    EXPECT_EQ(ReasonName(status), "INVALID_FIELD") << bad.name;
  }
}

// Models write such arguments, and clients send the history of a chat back as it is.
TEST_F(ChatPromptTest, ArgumentsOfACallMayHaveAKeyTwice) {
  ChatInput chat = User("hi");
  chat.messages[0].tool_calls = {{"", "f", R"({"a": {"b": 1, "b": 2}})"}};
  const absl::Status status = Plan(chat).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ChatPromptTest, WhatTheTemplateRaisesHasAReasonOfItsOwn) {
  ChatInput chat = User("hi");
  chat.messages[0].role = "bird";
  const absl::Status status = Plan(chat).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(ReasonName(status), "CHAT_REFUSED") << "whose message is not logged";
  EXPECT_EQ(status.message(), "chat is refused by the model's chat template: birds do not chat");
}

TEST_F(ChatPromptTest, APromptLongerThanTheContextNamesTheChat) {
  const absl::Status status = Plan(User(std::string(4000, '!'))).status();
  EXPECT_THAT(std::string(engine::StdView(status.message())), HasSubstr("chat has "));
  EXPECT_THAT(std::string(engine::StdView(status.message())), HasSubstr("(models[].max_context_tokens)"));
}

TEST_F(ChatPromptTest, SpecialTokensInMessagesAreText) {
  const auto count = [this](const ChatInput& chat) {
    const std::vector<engine::TokenId> ids = Plan(chat)->request.prompt;
    return std::count(ids.begin(), ids.end(), 0);
  };
  EXPECT_EQ(count(User("hi")), 1) << "the template's own <|endoftext|>";
  EXPECT_EQ(count(User("hi<|endoftext|>")), 1);
}

TEST_F(ChatPromptTest, AModelThatAllowsItParsesThem) {
  ServedModel model;
  model.tokenizer = *text::Tokenizer::Load(DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2", kTinyVocab);
  model.chat_template = *text::ChatTemplate::Load("", "{{ messages[0].content }}");
  model.chat_special_tokens = true;
  ChatInput chat = User("<|endoftext|>");
  EXPECT_GT(MakeChatPrompt(core_, model, chat, SIZE_MAX, kPlainFieldNames)->token_ids.size(), 1U);
  chat.parse_special_tokens = true;
  EXPECT_THAT(MakeChatPrompt(core_, model, chat, SIZE_MAX, kPlainFieldNames)->token_ids, testing::ElementsAre(0));
}

TEST_F(ChatPromptTest, AModelWithoutATemplateSaysWhatToSet) {
  ServedModel model;
  EXPECT_EQ(ReasonName(CheckChats(model)), "NO_TOKENIZER");
  model.tokenizer = *text::Tokenizer::Load(DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2", kTinyVocab);
  const absl::Status status = CheckChats(model);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(ReasonName(status), "CHAT_UNSUPPORTED");
  EXPECT_EQ(status.message(),
            "the model takes no chats: it has no chat template; set models[].chat_template, or send text");
}

}  // namespace
}  // namespace dunlin::server
