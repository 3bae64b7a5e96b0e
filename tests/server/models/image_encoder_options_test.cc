// SPDX-License-Identifier: Apache-2.0
// The limits of an image encoder's engine, against the grids that the image processor makes.
#include <gtest/gtest.h>

#include "server/models/image_input.h"

namespace dunlin::server {
namespace {

constexpr const char* kPixtralProcessor =
    R"({"image_processor_type": "PixtralImageProcessor", "patch_size": 14, "size": {"longest_edge": 1540}})";

// Of edges that are whole squares of merged patches, and of those that are not.
TEST(ImageEncoderOptions, HaveRoomForEveryGridOfTheProcessor) {
  const engine::MemoryFiles files({{"preprocessor_config.json", kPixtralProcessor}});
  absl::StatusOr<text::ImageProcessor> processor = text::LoadImageProcessor(files);
  ASSERT_TRUE(processor.ok()) << processor.status();
  processor->merge_size = 2;
  for (const int32_t edge : {1540, 1000, 29, 28, 27, 1}) {
    processor->longest_edge = edge;
    const engine::EngineOptions options = ImageEncoderOptions({}, *processor);
    for (const text::ImageSize size : {text::ImageSize{3000, 3000}, {edge, edge}, {3000, 2999}, {1, 1}}) {
      const absl::StatusOr<text::ImageGrid> grid = text::GridOf(*processor, size);
      if (!grid.ok()) continue;  // too narrow
      EXPECT_LE(grid->num_patches(), options.max_context_tokens) << edge << ": " << size.width << " x " << size.height;
    }
    const absl::StatusOr<text::ImageGrid> largest = text::GridOf(*processor, {3000, 3000});
    ASSERT_TRUE(largest.ok()) << largest.status();
    EXPECT_EQ(largest->num_patches(), options.max_context_tokens) << "no more room than that: " << edge;
  }
}

}  // namespace
}  // namespace dunlin::server
