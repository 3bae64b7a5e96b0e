// SPDX-License-Identifier: Apache-2.0
// Images in the messages of every route: where their bytes arrive, in which order, and which forms are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_replace.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/responses.h"
#include "server/fronts/openai/tokenize.h"
#include "server/serving/record/errors.h"
#include "tests/server/fronts/openai/read_request.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;

// "text" and <bytes of an image>, message by message.
std::vector<std::string> PartsOf(const text::ChatInput& chat) {
  std::vector<std::string> out;
  for (const text::ChatMessage& message : chat.messages) {
    std::string line = message.role + ":";
    if (message.content.has_value()) line += " " + *message.content;
    for (const text::ChatPart& part : message.parts) {
      const bool image = part.type == "image";
      EXPECT_EQ(image, part.image != nullptr);
      EXPECT_EQ(image ? part.text : part.type, image ? "" : "text");
      line += image ? " <" + *part.image + ">" : " " + part.text;
    }
    out.push_back(line);
  }
  return out;
}

template <class Translator>
std::vector<std::string> PartsOfBody(const std::string& body) {
  ClientRequest request;
  const absl::Status status = Read<Translator>(body, &request);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(request.ignored.List(), "");
  return status.ok() ? PartsOf(ChatOf(request)) : std::vector<std::string>();
}

constexpr char kChatMessages[] = R"({"model":"m","messages":[{"role":"user","content":[
    {"type":"image_url","image_url":{"url":"data:image/png;base64,Zm9v","detail":"low"}},
    {"type":"text","text":"and"},
    {"type":"image_url","image_url":"data:;base64,YmFy"}]},
    {"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,YmF6"}}]}
  ]})";

TEST(Images, OfChatCompletionsStandWhereTheyWere) {
  EXPECT_THAT(PartsOfBody<ChatCompletionsTranslator>(kChatMessages),
              ElementsAre("user: <foo> and <bar>", "tool: <baz>"));
  TokenizeBody body;
  const absl::Status status = ReadTokenize(kChatMessages, nullptr, &body);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(PartsOf(std::get<text::ChatInput>(body.prompt)), ElementsAre("user: <foo> and <bar>", "tool: <baz>"));
}

TEST(Images, OfResponsesStandInMessagesAndInOutputsOfTools) {
  EXPECT_THAT(PartsOfBody<ResponsesTranslator>(R"({"model":"m","input":[
      {"role":"user","content":[{"type":"input_text","text":"look"},
        {"type":"input_image","image_url":"data:image/png;base64,Zm9v","detail":"auto","file_id":null}]},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":[
        {"type":"input_image","image_url":"data:image/webp;base64,YmFy"},{"type":"input_text","text":"seen"}]}]})"),
              ElementsAre("user: look <foo>", "assistant:", "tool: <bar> seen"));
}

constexpr char kBlocks[] = R"({"model":"m","max_tokens":5,"messages":[
    {"role":"user","content":[
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"Zm9v"},
       "cache_control":{"type":"ephemeral"}},
      {"type":"text","text":"what?"}]},
    {"role":"assistant","content":[{"type":"tool_use","id":"u","name":"f","input":{}}]},
    {"role":"user","content":[
      {"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":"a"},
        {"type":"image","source":{"type":"base64","media_type":"image/gif","data":"YmFy"}}]},
      {"type":"document","title":"t","source":{"type":"content","content":[
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"YmF6"}},
        {"type":"text","text":"b"}]}}]}]})";

TEST(Images, OfMessagesStandInBlocksAndInResultsOfTools) {
  const auto expected = ElementsAre("user: <foo> what?", "assistant:", "tool: a <bar>", "user: t <baz> b");
  EXPECT_THAT(PartsOfBody<AnthropicTranslator>(kBlocks), expected);
  ClientRequest counted;
  ASSERT_TRUE(ReadCountTokens(kBlocks, /*strict=*/true, &counted).ok());
  EXPECT_THAT(PartsOf(ChatOf(counted)), expected);
}

struct RefusedForms {
  absl::Status (*read)(std::string_view, ClientRequest*);
  const char* body;  // * stands for the place of the part
  std::vector<std::pair<const char*, const char*>> parts;
};

TEST(Images, FormsThatAreRefusedAreNamed) {
  constexpr char kUrl[] =
      " is a URL of the scheme https; limit is a data: URL with base64: "
      "the server opens no connections for a request";
  const std::string url = std::string("messages[0].content[0].image_url.url") + kUrl;
  const std::string bare = std::string("messages[0].content[0].image_url") + kUrl;
  const std::string input = std::string("input[0].content[0].image_url") + kUrl;
  const RefusedForms refusals[] = {
      {Read<ChatCompletionsTranslator>,
       R"({"messages":[{"role":"user","content":[*]}]})",
       {{R"({"type":"image_url"})", "messages[0].content[0].image_url is missing; limit is a string"},
        {R"({"type":"image_url","image_url":{}})",
         "messages[0].content[0].image_url.url is missing; limit is a string"},
        {R"({"type":"image_url","image_url":{"url":"https://secret"}})", url.c_str()},
        {R"({"type":"image_url","image_url":"https://secret"})", bare.c_str()},
        {R"({"type":"image_url","image_url":{"url":"data:;base64,Zm9v","detail":"fine"}})",
         "messages[0].content[0].image_url.detail is \"fine\"; limit is \"auto\", \"low\", \"high\" or \"original\""},
        {R"({"type":"image_url","image_url":{"url":"data:;base64,*"}})",
         "messages[0].content[0].image_url.url is not base64: error at byte 14"},
        {R"({"type":"image","image":"Zm9v"})",
         "messages[0].content[0].type is \"image\"; limit is text image_url: "
         "models here read text, and some of them images"},
        {R"({"type":"input_audio","input_audio":{}})",
         "messages[0].content[0].type is \"input_audio\"; limit is text image_url: "
         "models here read text, and some of them images"},
        {R"({"type":"video_url","video_url":{}})",
         "messages[0].content[0].type is \"video_url\"; limit is text image_url: "
         "models here read text, and some of them images"},
        {R"({"type":"file","file":{}})",
         "messages[0].content[0].type is \"file\"; limit is text image_url: "
         "models here read text, and some of them images"}}},
      {Read<ResponsesTranslator>,
       R"({"input":[{"role":"user","content":[*]}]})",
       {{R"({"type":"input_image","image_url":"https://secret"})", input.c_str()},
        {R"({"type":"input_image","file_id":"f","image_url":"data:;base64,Zm9v"})",
         "input[0].content[0].file_id is not supported: no files are stored; image_url takes a data: URL"},
        {R"({"type":"input_image","detail":1,"image_url":"data:;base64,Zm9v"})",
         "input[0].content[0].detail is 1; limit is \"auto\", \"low\", \"high\" or \"original\""},
        {R"({"type":"input_file","file_id":"f"})",
         "input[0].content[0].type is \"input_file\"; limit is input_text output_text text input_image: "
         "models here read text, and some of them images"}}},
      {Read<AnthropicTranslator>,
       R"({"max_tokens":1,"messages":[{"role":"user","content":[*]}]})",
       {{R"({"type":"image"})", "messages[0].content[0].source is missing; limit is an object"},
        {R"({"type":"image","source":{"type":"url","url":"https://secret"}})",
         "messages[0].content[0].source.type is \"url\"; limit is \"base64\": "
         "the server opens no connections for a request, and no files are stored"},
        {R"({"type":"image","source":{"type":"file","file_id":"secret"}})",
         "messages[0].content[0].source.type is \"file\"; limit is \"base64\": "
         "the server opens no connections for a request, and no files are stored"},
        {R"({"type":"image","source":{"type":"base64","data":"Zm9v?"}})",
         "messages[0].content[0].source.data is not base64: error at byte 5"},
        {R"({"type":"image","source":{"type":"base64"}})",
         "messages[0].content[0].source.data is missing; limit is a string"},
        {R"({"type":"tool_result","tool_use_id":"u","content":[{"type":"image","source":{"type":"url"}}]})",
         "messages[0].content[0].content[0].source.type is \"url\"; limit is \"base64\": "
         "the server opens no connections for a request, and no files are stored"}}},
  };
  for (const RefusedForms& row : refusals) {
    for (const auto& [part, message] : row.parts) {
      ClientRequest request;
      const absl::Status status = row.read(absl::StrReplaceAll(row.body, {{"*", part}}), &request);
      EXPECT_EQ(engine::StdView(status.message()), message) << part;
      EXPECT_EQ(ReasonName(status), "INVALID_FIELD") << part;
    }
  }
}

}  // namespace
}  // namespace dunlin::server
