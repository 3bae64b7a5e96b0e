// SPDX-License-Identifier: Apache-2.0
// Images in strings: what RFC 4648's vectors decode to, what is tolerated, and what is refused in which words.
#include "server/json/image_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {

using Reader = text::ChatPart (*)(const JsonValue& value);

struct Image {
  std::string error;  // "": none
  text::ChatPart part;
};

// Of {"x": value}.
Image Read(Reader reader, const Json& value) {
  const Json body = {{"x", value}};
  absl::Status status;
  Image image;
  image.part = reader(JsonValue(body, &status).At("x"));
  image.error = std::string(engine::StdView(status.message()));
  EXPECT_EQ(image.part.type, "image");
  EXPECT_EQ(image.part.image == nullptr, !status.ok());
  return image;
}

TEST(ImageData, DecodesTheVectorsOfTheRfc) {
  const std::pair<const char*, const char*> vectors[] = {{"Zg==", "f"},         {"Zm8=", "fo"},
                                                         {"Zm9v", "foo"},       {"Zm9vYg==", "foob"},
                                                         {"Zm9vYmE=", "fooba"}, {"Zm9vYmFy", "foobar"}};
  for (const auto& [code, bytes] : vectors) {
    const Image alone = Read(ImageOfBase64, code);
    ASSERT_EQ(alone.error, "") << code;
    EXPECT_EQ(*alone.part.image, bytes);
    const Image of_url = Read(ImageOfUrl, std::string("data:image/png;base64,") + code);
    ASSERT_EQ(of_url.error, "") << code;
    EXPECT_EQ(*of_url.part.image, bytes);
  }
  const Image bytes = Read(ImageOfBase64, "AP+A/gA=");
  EXPECT_EQ(*bytes.part.image, std::string("\x00\xff\x80\xfe\x00", 5)) << "any bytes, zeros too";
}

TEST(ImageData, ToleratesWhiteSpaceAndMissingPadding) {
  for (const char* code : {"Zm9vYg", "Zm9v\r\nYg==\n", " Zm9v\tYg = = "}) {
    const Image image = Read(ImageOfBase64, code);
    ASSERT_EQ(image.error, "") << code;
    EXPECT_EQ(*image.part.image, "foob");
  }
}

TEST(ImageData, ReadsNoMediaType) {
  for (const char* head :
       {"data:;base64,", "data:image;base64,", "data:text/plain;charset=x;base64,", "DATA:a/b;BASE64,"}) {
    const Image image = Read(ImageOfUrl, std::string(head) + "Zm9v");
    ASSERT_EQ(image.error, "") << head;
    EXPECT_EQ(*image.part.image, "foo");
  }
}

TEST(ImageData, RefusesBase64ThatIsNoneByItsPlace) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "x is an empty image; limit is the bytes of an image file"},
      {" \n", "x is an empty image; limit is the bytes of an image file"},
      {"Zm9v-_==", "x is not base64: error at byte 5"},
      {"Zm9%3D", "x is not base64: error at byte 4"},
      {"Zm9v\xc3\xa9", "x is not base64: error at byte 5"},
      {"Zg.=", "x is not base64: error at byte 3"},
      {"Z", "x is not base64: it is cut off, or padded where it does not end"},
      {"Zm9vY", "x is not base64: it is cut off, or padded where it does not end"},
      {"Zg=", "x is not base64: it is cut off, or padded where it does not end"},
      {"Zg==Zg==", "x is not base64: it is cut off, or padded where it does not end"},
      {"====", "x is not base64: it is cut off, or padded where it does not end"},
  };
  for (const auto& [code, error] : rows) EXPECT_EQ(Read(ImageOfBase64, code).error, error) << code;
  EXPECT_EQ(Read(ImageOfUrl, "data:image/png;base64,Zm9v!").error, "x is not base64: error at byte 27");
  EXPECT_EQ(Read(ImageOfUrl, "data:image/png;base64,").error,
            "x is an empty image; limit is the bytes of an image file");
}

constexpr char kWanted[] = "; limit is a data: URL with base64: the server opens no connections for a request";

TEST(ImageData, OpensNothingThatAUrlNamesAndQuotesNoneOfIt) {
  const std::pair<const char*, const char*> rows[] = {
      {"http://169.254.169.254/latest/secret", "x is a URL of the scheme http"},
      {"HTTPS://user:secret@host/secret.png", "x is a URL of the scheme https"},
      {"file:///etc/secret", "x is a URL of the scheme file"},
      {"ftp://secret", "x is a URL of the scheme ftp"},
      {"secret:8080/x.png", "x is no data: URL"},
      {"/home/secret.png", "x is no data: URL"},
      {" data:;base64,Zm9v", "x is no data: URL"},
      {"iVBORw0KGgo=", "x is no data: URL"},
      {"", "x is no data: URL"},
  };
  for (const auto& [url, error] : rows) EXPECT_EQ(Read(ImageOfUrl, url).error, std::string(error) + kWanted) << url;
}

TEST(ImageData, RefusesOtherDataUrlsAndTypes) {
  constexpr char kError[] = "x is a data: URL without base64; limit is data:image/png;base64,...";
  for (const char* url :
       {"data:,Zm9v", "data:image/svg+xml,%3Csvg%3E", "data:image/png;base64", "data:base64,Zm9v", "data:"}) {
    EXPECT_EQ(Read(ImageOfUrl, url).error, kError) << url;
  }
  for (const Reader reader : {&ImageOfBase64, &ImageOfUrl}) {
    EXPECT_EQ(Read(reader, nullptr).error, "x is missing; limit is a string");
    EXPECT_EQ(Read(reader, Json::array({1})).error, "x is an array; limit is a string");
  }
}

}  // namespace
}  // namespace dunlin::server
