// SPDX-License-Identifier: Apache-2.0
// Chats with images by every API, against what transformers answers to the same files
// (tests/golden/image_encoders/make_served_golden.py); and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

// name: of ServedEdge's models.
Json Golden(const std::string& name = "vision") {
  const std::string folder = name == "vision" ? "mistral3_vision" : "qwen35_vision";
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/image_encoders/" + folder + "/served.json");
  return Json::parse(file);
}

Json ChatBody(const Json& messages, int max_tokens, const std::string& model = "vision") {
  return {{"model", model},   {"messages", messages},     {"max_tokens", max_tokens},
          {"temperature", 0}, {"return_token_ids", true}, {"logprobs", true}};
}

std::string SaltedBody(const std::string& model, const Json& messages, const std::string& salt) {
  Json body = ChatBody(messages, 4, model);
  body["cache_salt"] = salt;
  return body.dump();
}

std::vector<int> OutputOf(const Json& answer) {
  return answer["choices"][0]["token_ids"].get<std::vector<int>>();
}

// Of the golden's data URLs: "iVBOR...".
std::string Base64Of(const Json& part) {
  const auto url = part["image_url"]["url"].get<std::string>();
  return url.substr(url.find(',') + 1);
}

class ImageChats : public testing::TestWithParam<std::tuple<const char*, size_t>> {
 protected:
  const std::string model_ = std::get<0>(GetParam());
  const Json chats_ = Golden(model_)["chats"];
  const Json golden_ = chats_[std::get<1>(GetParam())];
  const ServedEdge& edge_ = ServedEdge::Get();
};

TEST_P(ImageChats, AnswersAreThoseOfTransformers) {
  const auto expected = golden_["output_tokens"].get<std::vector<int>>();
  const Json body = ChatBody(golden_["messages"], static_cast<int>(expected.size()), model_);
  const HttpAnswer answer = edge_.Post("/v1/chat/completions", body.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(OutputOf(answer.json()), expected) << answer.body;
  EXPECT_EQ(answer.json()["usage"]["prompt_tokens"], golden_["prompt_tokens"].size());
  EXPECT_EQ(answer.json()["usage"]["completion_tokens"], expected.size());
}

// Of the second request the prefix cache has the pages, and the store the rows.
TEST_P(ImageChats, ARepeatedChatHasTheSameBytes) {
  const std::string body = SaltedBody(model_, golden_["messages"], "repeated");
  const HttpAnswer first = edge_.Post("/v1/chat/completions", body);
  const HttpAnswer second = edge_.Post("/v1/chat/completions", body);
  ASSERT_EQ(first.status, 200) << first.body;
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(first.json()["choices"], second.json()["choices"]);
}

// Each request's salt is its own, so that each is encoded and computed.
TEST_P(ImageChats, NeighboursChangeNothing) {
  const HttpAnswer alone = edge_.Post("/v1/chat/completions", SaltedBody(model_, golden_["messages"], "alone"));
  ASSERT_EQ(alone.status, 200) << alone.body;
  std::vector<HttpAnswer> answers(12);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < answers.size(); ++i) {
    callers.emplace_back([&, i] {
      const Json messages = i < 4 ? golden_["messages"] : chats_[i % 3]["messages"];
      answers[i] = edge_.Post("/v1/chat/completions", SaltedBody(model_, messages, absl::StrCat("neighbour ", i)));
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const HttpAnswer& answer : answers) EXPECT_EQ(answer.status, 200) << answer.body;
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answers[i].json()["choices"], alone.json()["choices"]);
}

TEST_P(ImageChats, TokenizeCountsTheRows) {
  const HttpAnswer answer = edge_.Post("/tokenize", Json{{"model", model_}, {"messages", golden_["messages"]}}.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["tokens"], golden_["prompt_tokens"]);
}

INSTANTIATE_TEST_SUITE_P(All, ImageChats,
                         testing::Combine(testing::Values("vision", "qwen-vision"), testing::Values(0, 1, 2)));

// The first chat, as each API says it.
class ImageApis : public testing::Test {
 protected:
  const Json golden_ = Golden()["chats"][0];
  const std::string data_ = Base64Of(golden_["messages"][0]["content"][0]);
  const std::string words_ = golden_["messages"][0]["content"][1]["text"];
  const ServedEdge& edge_ = ServedEdge::Get();
  const std::string text_ = edge_.Post("/v1/chat/completions", ChatBody(golden_["messages"], 4).dump())
                                .json()["choices"][0]["message"]["content"];
};

TEST_F(ImageApis, Responses) {
  const Json input = {{{"role", "user"},
                       {"content",
                        {{{"type", "input_image"}, {"image_url", absl::StrCat("data:image/png;base64,", data_)}},
                         {{"type", "input_text"}, {"text", words_}}}}}};
  const HttpAnswer answer =
      edge_.Post("/v1/responses",
                 Json{{"model", "vision"}, {"input", input}, {"max_output_tokens", 4}, {"temperature", 0}}.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["output"][0]["content"][0]["text"], text_);
}

TEST_F(ImageApis, Anthropic) {
  const Json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", data_}};
  const Json content = {{{"type", "image"}, {"source", source}}, {{"type", "text"}, {"text", words_}}};
  const HttpAnswer answer = edge_.Post("/v1/messages", Json{{"model", "vision"},
                                                            {"messages", {{{"role", "user"}, {"content", content}}}},
                                                            {"max_tokens", 4},
                                                            {"temperature", 0}}
                                                           .dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["content"][0]["text"], text_);
}

TEST_F(ImageApis, Grpc) {
  const Json chat = {
      {"messages",
       {{{"role", "user"}, {"parts", {{{"type", "image"}, {"image", data_}}, {{"type", "text"}, {"text", words_}}}}}}}};
  const Reply reply = edge_.Generate(Json{
      {"model", "vision"},
      {"chat", chat},
      {"sampling", {{"temperature", 0}}},
      {"stopping", {{"maxTokens", 4}}}}.dump());
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).text, text_);
}

class ImageRefusals : public testing::Test {
 protected:
  // A chat of such parts, and more members.
  HttpAnswer Post(const std::string& model, const Json& parts, const Json& more = Json::object()) const {
    Json body = ChatBody({{{"role", "user"}, {"content", parts}}}, 4);
    body["model"] = model;
    body.update(more);
    return ServedEdge::Get().Post("/v1/chat/completions", body.dump());
  }
  static Json Image(const std::string& file) {
    return {{"type", "image_url"}, {"image_url", {{"url", absl::StrCat("data:;base64,", absl::Base64Escape(file))}}}};
  }
  const Json good_ = Golden()["chats"][0]["messages"][0]["content"][0];
  const Json text_ = {{"type", "text"}, {"text", "w30"}};
};

TEST_F(ImageRefusals, AModelOfTextAloneSaysSo) {
  const HttpAnswer answer = Post("demo", {good_, text_});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("it is a model of text alone"));
}

TEST_F(ImageRefusals, WhatIsNoImage) {
  const HttpAnswer answer = Post("vision", {text_, Image("GIF89a and no more")});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("messages[0].content[1].image_url"));
}

// Its header is read when the prompt is planned, its pixels later.
TEST_F(ImageRefusals, AnImageThatEndsEarly) {
  std::string file;
  ASSERT_TRUE(absl::Base64Unescape(Base64Of(good_), &file));
  const HttpAnswer answer = Post("vision", {Image(file.substr(0, file.size() / 2)), text_});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("messages[0].content[0].image_url"));
}

TEST_F(ImageRefusals, MoreThanTheLimit) {
  const HttpAnswer answer = Post("vision", {good_, good_, good_, good_, good_});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("limit is 4 (models[].images.max_images)"));
}

TEST_F(ImageRefusals, PromptLogprobs) {
  const HttpAnswer answer = Post("vision", {good_, text_}, {{"prompt_logprobs", 1}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("prompt_logprobs is given with images"));
}

// The text of an image's token in a message is text.
TEST_F(ImageRefusals, TheWordOfAPlaceIsNone) {
  const HttpAnswer answer = Post("vision", {good_, {{"type", "text"}, {"text", "[IMG] w30"}}});
  EXPECT_EQ(answer.status, 200) << answer.body;
}

}  // namespace
}  // namespace dunlin::server
