// SPDX-License-Identifier: Apache-2.0
// Images of messages as JSON, and back.
#include "tools/cli/image_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/cli/chat_messages.h"

namespace dunlin::cli {
namespace {

using ::testing::HasSubstr;

TEST(ImageParts, AreReadBackFromTheirJson) {
  v1::ContentPart image;
  image.set_type("image");
  image.set_image(std::string("\x89PNG\0\xff", 6));
  const v1::ChatMessage message = UserMessage({image}, "what?");
  v1::Chat chat;
  ASSERT_TRUE(AddMessages(MessageJson(message).dump(), &chat).ok());
  EXPECT_EQ(chat.messages(0).SerializeAsString(), message.SerializeAsString());
}

TEST(ImageParts, OfJsonAreDataUrls) {
  v1::Chat chat;
  const absl::Status status = AddMessages(R"([{"role":"user","content":[
      {"type":"image_url","image_url":{"url":"data:image/png;base64,Zm9v","detail":"low"}},
      {"type":"image_url","image_url":"data:;base64,YmFy"}]}])",
                                          &chat);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(chat.messages(0).parts(0).image() + chat.messages(0).parts(1).image(), "foobar");
  for (const char* url : {"https://host/a.png", "data:image/png,Zm9v", "data:;base64,Z", "data:;base64", ""}) {
    const std::string json = R"([{"content":[{"type":"image_url","image_url":")" + std::string(url) + "\"}]}]";
    EXPECT_THAT(std::string(AddMessages(json, &chat).message()), HasSubstr("no data: URL")) << url;
  }
  EXPECT_FALSE(AddMessages(R"([{"content":[{"type":"image_url"}]}])", &chat).ok());
  EXPECT_FALSE(AddMessages(R"([{"content":[{"type":"image_url","image_url":{}}]}])", &chat).ok());
}

TEST(ImageParts, AreShortForPeople) {
  v1::ContentPart image;
  image.set_type("image");
  image.set_image(std::string(3000, 'x'));
  auto messages =
      nlohmann::ordered_json::array({MessageJson(UserMessage({image}, "a")), MessageJson(UserMessage({}, "b"))});
  ShortenImages(&messages);
  EXPECT_EQ(messages[0]["content"][0]["image_url"]["url"], "data:image;base64,... (4018 characters)");
  EXPECT_EQ(messages[0]["content"][1]["text"], "a");
  EXPECT_EQ(messages[1].dump(), R"({"role":"user","content":"b"})");
}

}  // namespace
}  // namespace dunlin::cli
