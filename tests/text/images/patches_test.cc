// SPDX-License-Identifier: Apache-2.0
// Whole processors against transformers' pixel values, and the order of patches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/text/images/golden_images.h"
#include "text/images/image_processor.h"

namespace dunlin::text {
namespace {

// Values of some units are computed by transformers in float, in two roundings; here in double, in one.
constexpr float kTolerance = 1e-5F;

ImageProcessor ProcessorOf(const nlohmann::json& row) {
  const auto processor =
      LoadImageProcessor(engine::MemoryFiles({{"preprocessor_config.json", row["preprocessor_config"].dump()},
                                              {"processor_config.json", row["processor_config"].dump()}}));
  EXPECT_TRUE(processor.ok()) << processor.status();
  return processor.value_or(ImageProcessor());
}

ImageProcessor QwenProcessor() {
  std::map<std::string, std::string, std::less<>> files;
  files["preprocessor_config.json"] = R"({"image_processor_type": "Qwen2VLImageProcessor"})";
  const auto processor = LoadImageProcessor(engine::MemoryFiles(std::move(files)));
  EXPECT_TRUE(processor.ok()) << processor.status();
  return processor.value_or(ImageProcessor());
}

// Element `i` of the patches as the place [channel, y, x] of the whole image.
size_t PlaceInImage(const ImageProcessor& processor, ImageGrid grid, size_t i) {
  const auto patch_size = static_cast<size_t>(processor.patch_size);
  const size_t per_patch = 3 * patch_size * patch_size;
  const PatchPlace place = PlaceOf(grid, processor.merge_size, static_cast<int64_t>(i / per_patch));
  const size_t channel = i % per_patch / (patch_size * patch_size);
  const size_t y = static_cast<size_t>(place.row) * patch_size + i / patch_size % patch_size;
  const size_t x = static_cast<size_t>(place.column) * patch_size + i % patch_size;
  const size_t height = static_cast<size_t>(grid.rows) * patch_size;
  const size_t width = static_cast<size_t>(grid.columns) * patch_size;
  return (channel * height + y) * width + x;
}

TEST(MakePatches, GivesTransformersPixelValues) {
  for (const nlohmann::json& row : ImageGoldens("processor.json")["cases"]) {
    SCOPED_TRACE(row["name"]);
    const ImageProcessor processor = ProcessorOf(row);
    const Image image = ImageOf(row);
    const auto patches = MakePatches(processor, image);
    ASSERT_TRUE(patches.ok()) << patches.status();
    const ImageGrid grid = {.rows = row["rows"], .columns = row["columns"]};
    EXPECT_EQ(patches->grid, grid);
    EXPECT_EQ(GridOf(processor, image.size).value_or(ImageGrid()), grid);
    const std::string bytes = FromBase64(row["values"]);
    std::vector<float> expected(bytes.size() / sizeof(float));
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    ASSERT_EQ(patches->values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const float value = expected[PlaceInImage(processor, grid, i)];
      ASSERT_NEAR(patches->values[i], value, kTolerance * std::max(1.0F, std::abs(value))) << i;
    }
  }
}

// Its default processor resizes by torchvision, whose weights have fewer bits than Pillow's.
TEST(MakePatches, IsWithinALevelOfTorchvision) {
  size_t compared = 0;
  for (const nlohmann::json& row : ImageGoldens("processor.json")["cases"]) {
    if (!row.contains("torchvision_levels")) continue;
    SCOPED_TRACE(row["name"]);
    const ImageProcessor processor = ProcessorOf(row);
    const auto patches = MakePatches(processor, ImageOf(row));
    ASSERT_TRUE(patches.ok()) << patches.status();
    const std::vector<uint8_t> expected = PixelsOf(row["torchvision_levels"]);
    ASSERT_EQ(patches->values.size(), expected.size());
    const size_t per_channel = expected.size() / 3;
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t at = PlaceInImage(processor, patches->grid, i);
      const size_t channel = at / per_channel;
      const double level = (patches->values[i] * processor.image_std[channel] + processor.image_mean[channel]) * 255;
      ASSERT_NEAR(level, expected[at], 1.01) << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000U);
}

TEST(GridOf, IsTransformers) {
  for (const nlohmann::json& row : ImageGoldens("processor.json")["sizes"]) {
    ImageProcessor processor = ProcessorOf(ImageGoldens("processor.json")["cases"][0]);
    processor.longest_edge = row[2];
    processor.patch_size = row[3];
    processor.merge_size = row[4];
    const ImageGrid expected = {.rows = row[6], .columns = row[5]};
    const auto grid = GridOf(processor, {.width = row[0], .height = row[1]});
    if (expected.num_patches() == 0) {  // which transformers cannot resize to
      EXPECT_EQ(grid.status().code(), absl::StatusCode::kInvalidArgument) << row;
    } else {
      ASSERT_TRUE(grid.ok()) << row << grid.status();
      EXPECT_EQ(*grid, expected) << row;
    }
  }
}

TEST(GridOf, OfQwenIsTransformers) {
  size_t refused = 0;
  for (const nlohmann::json& row : ImageGoldens("processor.json")["qwen_sizes"]) {
    ImageProcessor processor = QwenProcessor();
    processor.min_pixels = row[2];
    processor.max_pixels = row[3];
    processor.patch_size = row[4];
    processor.merge_size = row[5];
    const ImageGrid expected = {.rows = row[7], .columns = row[6]};
    const auto grid = GridOf(processor, {.width = row[0], .height = row[1]});
    if (expected.num_patches() == 0) {
      EXPECT_EQ(grid.status().code(), absl::StatusCode::kInvalidArgument) << row;
      ++refused;
    } else {
      ASSERT_TRUE(grid.ok()) << row << grid.status();
      EXPECT_EQ(*grid, expected) << row;
      EXPECT_LE(grid->num_patches(), MaxPatches(processor)) << row;
    }
  }
  EXPECT_GT(refused, 10U);
}

TEST(GridOf, OfQwenSaysWhyAnImageIsTooNarrow) {
  EXPECT_EQ(GridOf(QwenProcessor(), {.width = 5, .height = 1001}).status().message(),
            "is 5 x 1001 pixels; the longer side must be at most 200 times the shorter one");
  EXPECT_TRUE(GridOf(QwenProcessor(), {.width = 5, .height = 1000}).ok());
}

// Over limits on either side of small images, every size of image.
TEST(MaxPatches, IsNotExceeded) {
  ImageProcessor qwen = QwenProcessor();
  qwen.patch_size = 3;
  for (const auto& [least, most] : {std::pair(1, 1), {1, 36}, {36, 40}, {500, 500}, {400, 5000}}) {
    qwen.min_pixels = least;
    qwen.max_pixels = most;
    int64_t largest = 0;
    for (int32_t width = 1; width < 420; width += 3) {
      for (int32_t height = 1; height < 420; ++height) {
        const auto grid = GridOf(qwen, {.width = width, .height = height});
        if (grid.ok()) largest = std::max(largest, grid->num_patches());
      }
    }
    EXPECT_LE(largest, MaxPatches(qwen)) << least << " " << most;
    EXPECT_GT(largest, 0);
  }
  ImageProcessor pixtral = ProcessorOf(ImageGoldens("processor.json")["cases"][0]);
  pixtral.longest_edge = 30;
  EXPECT_EQ(MaxPatches(pixtral), 64) << "30 pixels are 8 patches of 4, which 2 merge";
  EXPECT_EQ(GridOf(pixtral, {.width = 90, .height = 90})->num_patches(), 64);
}

TEST(GridOf, SaysWhyAnImageIsTooNarrow) {
  const ImageProcessor processor = ProcessorOf(ImageGoldens("processor.json")["cases"][0]);
  EXPECT_EQ(GridOf(processor, {.width = 2, .height = 65535}).status().message(),
            "is 2 x 65535 pixels; its shorter side has none where the longer one has 32 (size.longest_edge)");
}

TEST(GridOf, WithoutResizingNeedsWholeSquares) {
  ImageProcessor processor = ProcessorOf(ImageGoldens("processor.json")["cases"][0]);
  processor.do_resize = false;
  EXPECT_EQ(GridOf(processor, {.width = 24, .height = 16}).value_or(ImageGrid()), (ImageGrid{.rows = 4, .columns = 6}));
  EXPECT_EQ(GridOf(processor, {.width = 24, .height = 20}).status().message(),
            "is 24 x 20 pixels; without do_resize both must be multiples of 8");
}

TEST(PlaceOf, GoesThroughSquaresRowByRow) {
  const ImageGrid grid = {.rows = 4, .columns = 6};
  std::vector<PatchPlace> places;
  for (int64_t i = 0; i < grid.num_patches(); ++i) places.push_back(PlaceOf(grid, 2, i));
  const std::vector<PatchPlace> first = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}};
  EXPECT_EQ(std::vector<PatchPlace>(places.begin(), places.begin() + 8), first);
  EXPECT_EQ(places[12], (PatchPlace{2, 0}));
  EXPECT_EQ(places.back(), (PatchPlace{3, 5}));
  std::set<std::pair<int32_t, int32_t>> all;
  for (const PatchPlace& place : places) all.insert({place.row, place.column});
  EXPECT_EQ(all.size(), 24U);
}

TEST(PlaceOf, WithoutMergingGoesRowByRow) {
  static_assert(PlaceOf({.rows = 2, .columns = 3}, 1, 4) == PatchPlace{1, 1});
  EXPECT_EQ(PlaceOf({.rows = 2, .columns = 3}, 1, 2), (PatchPlace{0, 2}));
}

}  // namespace
}  // namespace dunlin::text
