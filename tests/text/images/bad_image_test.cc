// SPDX-License-Identifier: Apache-2.0
// Limits and refusals: what each says, and that a small file never makes a large allocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/text/images/golden_images.h"
#include "tests/text/images/png_chunks.h"

namespace dunlin::text {
namespace {

using testing::HasSubstr;

// Both functions refuse the file alike.
void ExpectRefused(std::string_view file, const ImageLimits& limits, const std::string& message) {
  const auto image = DecodeImage(file, limits);
  const auto size = ReadImageSize(file, limits);
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(image.status().message()), HasSubstr(message));
  EXPECT_EQ(size.status(), image.status());
}

// A whole PNG file of this size, RGB, with next to no pixels.
std::string EmptyPng(uint32_t width, uint32_t height) {
  const std::string deflated = {0x78, static_cast<char>(0x9C), 0x03, 0, 0, 0, 0, 1};
  return "\x89PNG\r\n\x1A\n" +
         PngChunk("IHDR", BigEndian(width) + BigEndian(height) + std::string("\x08\x02\0\0\0", 5)) +
         PngChunk("IDAT", deflated) + PngChunk("IEND", "");
}

TEST(BadImage, OfNoKnownFormatNamesThoseThatAreRead) {
  const std::string bitmap = "BM" + std::string(100, '\0');
  for (const std::string_view file : {std::string_view(), std::string_view("hello"), std::string_view(bitmap)}) {
    ExpectRefused(file, kManyPixels, "is of no format that is read: PNG, JPEG, WebP, GIF");
  }
}

TEST(BadImage, OfTooManyPixelsIsRefusedByItsHeader) {
  ExpectRefused(EmptyPng(60000, 60000), kManyPixels, "is 60000 x 60000, 3600000000 pixels; limit is 1000000");
  ExpectRefused(EmptyPng(60000, 60000), {.max_pixels = 3'599'999'999}, "limit is 3599999999");
  ExpectRefused(EmptyPng(70000, 1), {.max_pixels = INT64_MAX}, "is 70000 x 1 pixels; limit of a side is 65535");
  ExpectRefused(EmptyPng(1, 70000), {.max_pixels = INT64_MAX}, "is 1 x 70000 pixels; limit of a side is 65535");
  ExpectRefused(EmptyPng(3, 3), {.max_pixels = 8}, "is 3 x 3, 9 pixels; limit is 8");
  ExpectRefused(EmptyPng(3, 3), {.max_pixels = -1}, "max_pixels is -1; it is 0 or more");
}

TEST(BadImage, HasAsManyPixelsAsTheLimitAtMost) {
  for (const nlohmann::json& row : ImageGoldens("decode.json")) {
    const std::string file = FromBase64(row["file"]);
    const int64_t pixels = row["width"].get<int64_t>() * row["height"].get<int64_t>();
    EXPECT_TRUE(DecodeImage(file, {.max_pixels = pixels}).ok()) << row["name"];
    ExpectRefused(file, {.max_pixels = pixels - 1}, " pixels; limit is " + std::to_string(pixels - 1));
  }
}

TEST(BadImage, WithoutPixelsIsCorrupt) {
  const auto image = DecodeImage(EmptyPng(8, 8), kManyPixels);
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(image.status().message()), HasSubstr("is a PNG file that is corrupt: "));
}

TEST(BadImage, CutShortSaysSo) {
  for (const char* name : {"png_rgb", "jpeg_420", "jpeg_progressive", "webp_lossy", "webp_lossless_alpha", "gif"}) {
    const std::string file = GoldenFile(name);
    for (const size_t size : {file.size() / 2, file.size() - 2}) {
      ExpectRefused(std::string_view(file).substr(0, size), kManyPixels, " file that is cut short");
    }
  }
}

TEST(BadImage, MayHaveBytesBehindItsEnd) {
  for (const nlohmann::json& row : ImageGoldens("decode.json")) {
    const auto image = DecodeImage(FromBase64(row["file"]) + "more", kManyPixels);
    ASSERT_TRUE(image.ok()) << row["name"] << image.status();
    EXPECT_LE(MaxDifference(image->rgb, PixelsOf(row["rgb"])), row["levels"].get<int>());
  }
}

// A chunk that claims 4 GB, and metadata that would unpack to much, are refused before memory is taken for them.
TEST(BadImage, MayNotClaimMoreThanItHas) {
  std::string webp = GoldenFile("webp_lossless_orientation_8");
  const size_t exif = webp.find("EXIF");
  ASSERT_NE(exif, std::string::npos);
  webp.replace(exif + 4, 4, "\xFE\xFF\xFF\xFF");
  ExpectRefused(webp, kManyPixels, "WebP file that is cut short");
  std::string png = GoldenFile("png_rgb");
  png.replace(8, 4, "\x7F\xFF\xFF\xFF");
  ExpectRefused(png, kManyPixels, "PNG file that is cut short");
}

// Of a progressive JPEG every scan goes over all pixels, although it may have a few bytes.
TEST(BadImage, MayNotHaveManyScans) {
  std::string file = GoldenFile("jpeg_progressive");
  const size_t begin = file.rfind("\xFF\xDA");
  const std::string scan = file.substr(begin, file.size() - 2 - begin);
  for (int i = 0; i < 70; ++i) file.insert(begin, scan);
  ExpectRefused(file, kManyPixels, "JPEG file that has more than 64 scans");
}

TEST(BadImage, OfAGifHasAPicture) {
  const std::string file = GoldenFile("gif");
  const size_t table = size_t{3} << ((file[10] & 7) + 1);
  ExpectRefused(file.substr(0, 13 + table) + ";", kManyPixels, "GIF file that has no picture");
}

TEST(BadImage, OrientationThatIsNoneIsIgnored) {
  std::string file = GoldenFile("jpeg_orientation_6");
  const size_t entry = file.find(std::string("\x01\x12", 2));  // big-endian, as Pillow writes it
  ASSERT_NE(entry, std::string::npos);
  file[entry + 9] = 77;
  const auto size = ReadImageSize(file, kManyPixels);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, (ImageSize{.width = 20, .height = 12}));
}

}  // namespace
}  // namespace dunlin::text
