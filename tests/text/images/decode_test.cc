// SPDX-License-Identifier: Apache-2.0
// Files of every kind against the pixels that Pillow decodes.
#include <gtest/gtest.h>

#include "tests/text/images/golden_images.h"

namespace dunlin::text {
namespace {

class DecodedImage : public testing::TestWithParam<std::string> {
 protected:
  const nlohmann::json& golden() const {
    for (const nlohmann::json& row : ImageGoldens("decode.json")) {
      if (row["name"] == GetParam()) return row;
    }
    std::abort();
  }
};

TEST_P(DecodedImage, IsPillows) {
  const std::string file = FromBase64(golden()["file"]);
  const Image expected = ImageOf(golden());
  const auto image = DecodeImage(file, kManyPixels);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size, expected.size);
  const int difference = MaxDifference(image->rgb, expected.rgb);
  RecordProperty("levels", difference);
  EXPECT_LE(difference, golden()["levels"].get<int>());
}

TEST_P(DecodedImage, HasTheSizeThatItsHeaderTells) {
  const auto size = ReadImageSize(FromBase64(golden()["file"]), kManyPixels);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, ImageOf(golden()).size);
}

// Whatever it is cut to, a file gives an error, and never a picture whose end is made up. Of an animation the frames
// after the first may be missing.
TEST_P(DecodedImage, IsRefusedWhenCutShort) {
  const std::string file = FromBase64(golden()["file"]);
  const auto whole = DecodeImage(file, kManyPixels);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // What may be missing: GIF's trailer, padding of WebP's last chunk.
  const size_t optional = GetParam().starts_with("gif") ? 1 : 0;
  for (size_t size = 0; size + optional < file.size(); ++size) {
    const auto image = DecodeImage(std::string_view(file).substr(0, size), kManyPixels);
    if (GetParam() == "gif_animated" && image.ok()) {
      ASSERT_EQ(image->rgb, whole->rgb) << size << " bytes of " << file.size();
      continue;
    }
    ASSERT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << size << " bytes of " << file.size();
  }
}

// Whatever stands in it, a changed byte gives another picture or an error of the file's.
TEST_P(DecodedImage, WithAChangedByteIsAnImageOrRefused) {
  std::string file = FromBase64(golden()["file"]);
  for (size_t at = 0; at < file.size(); ++at) {
    const char kept = file[at];
    file[at] = static_cast<char>(kept ^ (at % 2 == 0 ? 0xFF : 0x01));
    const auto image = DecodeImage(file, kManyPixels);
    const auto size = ReadImageSize(file, kManyPixels);
    if (image.ok()) {
      ASSERT_TRUE(size.ok()) << "byte " << at;
      ASSERT_EQ(*size, image->size) << "byte " << at;
      ASSERT_EQ(image->rgb.size(), size_t{3} * static_cast<size_t>(size->width) * static_cast<size_t>(size->height));
    } else {
      ASSERT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << "byte " << at << ": " << image.status();
    }
    file[at] = kept;
  }
}

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const nlohmann::json& row : ImageGoldens("decode.json")) names.push_back(row["name"]);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Goldens, DecodedImage, testing::ValuesIn(GoldenNames()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace dunlin::text
