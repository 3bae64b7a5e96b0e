// SPDX-License-Identifier: Apache-2.0
// Sizes up and down against Pillow's pixels, bit for bit.
#include <gtest/gtest.h>

#include "tests/text/images/golden_images.h"

namespace dunlin::text {
namespace {

ResizeFilter FilterOf(const std::string& name) {
  if (name == "bilinear") return ResizeFilter::kBilinear;
  return name == "lanczos" ? ResizeFilter::kLanczos : ResizeFilter::kBicubic;
}

TEST(ResizeImage, GivesPillowsPixels) {
  const nlohmann::json& goldens = ImageGoldens("resize.json");
  const Image source = ImageOf(goldens);
  ASSERT_GE(goldens["cases"].size(), 30U);
  for (const nlohmann::json& row : goldens["cases"]) {
    const Image expected = ImageOf(row);
    const auto resized = ResizeImage(source, expected.size, FilterOf(row["filter"]));
    ASSERT_TRUE(resized.ok()) << resized.status();
    EXPECT_EQ(resized->size, expected.size);
    EXPECT_EQ(MaxDifference(resized->rgb, expected.rgb), 0)
        << row["filter"] << " to " << expected.size.width << " x " << expected.size.height;
  }
}

TEST(ResizeImage, KeepsOneColour) {
  const Image source = {.size = {.width = 5, .height = 3}, .rgb = std::vector<uint8_t>(45, 200)};
  for (const ResizeFilter filter : {ResizeFilter::kBilinear, ResizeFilter::kBicubic, ResizeFilter::kLanczos}) {
    const auto resized = ResizeImage(source, {.width = 17, .height = 2}, filter);
    ASSERT_TRUE(resized.ok());
    EXPECT_EQ(MaxDifference(resized->rgb, std::vector<uint8_t>(size_t{17} * 2 * 3, 200)), 0);
  }
}

TEST(ResizeImage, RefusesSizesOutsideTheirLimit) {
  const Image source = {.size = {.width = 1, .height = 1}, .rgb = {1, 2, 3}};
  for (const ImageSize size :
       {ImageSize{0, 1}, ImageSize{1, 0}, ImageSize{-1, 1}, ImageSize{65536, 1}, ImageSize{1, 65536}}) {
    const auto resized = ResizeImage(source, size, ResizeFilter::kBicubic);
    EXPECT_EQ(resized.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(resized.status().message(), "image size is " + std::to_string(size.width) + " x " +
                                              std::to_string(size.height) + "; limit of a side is [1, 65535]");
  }
}

TEST(ResizeImage, RefusesPixelsOfAnotherSize) {
  const Image source = {.size = {.width = 2, .height = 1}, .rgb = {1, 2, 3}};
  const auto resized = ResizeImage(source, {.width = 1, .height = 1}, ResizeFilter::kBicubic);
  EXPECT_EQ(resized.status().message(), "an image of 2 x 1 has 3 bytes of pixels; must be 6");
}

}  // namespace
}  // namespace dunlin::text
