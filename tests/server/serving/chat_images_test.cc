// SPDX-License-Identifier: Apache-2.0
#include "server/serving/images/chat_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using engine::TokenId;
using testing::ElementsAre;

constexpr TokenId kRow = 10;
constexpr TokenId kLineEnd = 12;
constexpr TokenId kEnd = 13;

class ChatImagesTest : public testing::Test {
 protected:
  ChatImagesTest() : input_(1 << 20, engine::Digest{1, 2, 3}) {
    input_.tokens = {kRow, kLineEnd, kEnd};
    input_.merge = 2;
    input_.columns = 4;
  }

  static PromptImage ImageOf(std::string file, int32_t rows, int32_t columns) {
    PromptImage image;
    image.file = std::make_shared<const std::string>(std::move(file));
    image.grid = {rows, columns};
    return image;
  }

  ImageInput input_;
};

TEST_F(ChatImagesTest, AnImageTakesItsLinesInThePlaceOfItsToken) {
  std::vector<PromptImage> images = {ImageOf("a", 4, 6), ImageOf("b", 2, 2)};
  std::vector<TokenId> prompt = {1, kRow, 5, kRow};
  ASSERT_TRUE(PlaceImages(input_, &prompt, &images).ok());
  EXPECT_THAT(prompt, ElementsAre(1, kRow, kRow, kRow, kLineEnd, kRow, kRow, kRow, kEnd, 5, kRow, kEnd));
  EXPECT_EQ(images[0].first, 1);
  EXPECT_EQ(images[1].first, 10);
  EXPECT_EQ(NumRows(input_, images[0]), 6);
  std::vector<engine::PromptRows::Span> spans;
  for (const PromptImage& image : images) AppendSpans(input_, image, &spans);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].first, 1);
  EXPECT_EQ(spans[0].count, 3);
  EXPECT_EQ(spans[1].first, 5);
  EXPECT_EQ(spans[1].count, 3);
  EXPECT_EQ(spans[2].first, 10);
  EXPECT_EQ(spans[2].count, 1);
}

TEST_F(ChatImagesTest, TheTemplateMustPlaceEachImageOnce) {
  for (const std::vector<TokenId>& tokens : {std::vector<TokenId>{1, 2}, std::vector<TokenId>{1, kRow, kRow}}) {
    std::vector<PromptImage> images = {ImageOf("a", 2, 2)};
    std::vector<TokenId> prompt = tokens;
    EXPECT_EQ(ReasonName(PlaceImages(input_, &prompt, &images)), "CHAT_REFUSED");
    EXPECT_EQ(prompt, tokens);
  }
}

// Rows are told apart by the file, and by the salt, so that no caller learns what others have sent.
TEST_F(ChatImagesTest, RowTokensAreThoseOfTheFileAndItsSalt) {
  const auto tokens_of = [this](const std::string& file, const std::string& salt) {
    std::vector<PromptImage> images = {ImageOf(file, 8, 10)};
    std::vector<TokenId> prompt = {1, kRow, 2};
    EXPECT_TRUE(PlaceImages(input_, &prompt, &images).ok());
    SetRowTokens(&input_, images[0], DigestOf(input_, salt, images[0]), &prompt);
    return prompt;
  };
  const std::vector<TokenId> prompt = tokens_of("file", "");
  const std::vector<TokenId> others[] = {tokens_of("fill", ""), tokens_of("file", "salt")};
  EXPECT_EQ(tokens_of("file", ""), prompt);
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (!engine::IsRowToken(prompt[i])) {
      EXPECT_THAT(prompt[i], testing::AnyOf(1, 2, kLineEnd, kEnd));
      continue;
    }
    for (const std::vector<TokenId>& other : others) EXPECT_NE(other[i], prompt[i]);
  }
  EXPECT_EQ(std::count_if(prompt.begin(), prompt.end(), engine::IsRowToken), 20);  // 4 lines of 5
}

}  // namespace
}  // namespace dunlin::server
