// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "text/images/image_processor.h"

namespace dunlin::text {
namespace {

absl::StatusOr<ImageSize> TowerSize(const ImageProcessor& processor, ImageSize image) {
  if (processor.do_resize) return processor.sizing->size_of(processor, image);
  const int32_t square = processor.patch_size * processor.merge_size;
  if (image.width % square == 0 && image.height % square == 0) return image;
  return absl::InvalidArgumentError(absl::StrCat("is ", image.width, " x ", image.height,
                                                 " pixels; without do_resize both must be multiples of ", square));
}

ImageGrid GridOfTower(const ImageProcessor& processor, ImageSize size) {
  return {.rows = size.height / processor.patch_size, .columns = size.width / processor.patch_size};
}

// What each level of each channel becomes.
using LevelTable = std::array<std::array<float, 256>, kImageChannels>;

LevelTable TableOf(const ImageProcessor& processor) {
  LevelTable table;
  for (size_t channel = 0; channel < kImageChannels; ++channel) {
    for (size_t level = 0; level < table[channel].size(); ++level) {
      auto value = static_cast<double>(level);
      if (processor.do_rescale) value *= processor.rescale_factor;
      if (processor.do_normalize) value = (value - processor.image_mean[channel]) / processor.image_std[channel];
      table[channel][level] = static_cast<float>(value);
    }
  }
  return table;
}

// One patch; `corner` is its first pixel. Returns the end of what it wrote.
float* AppendPatch(const uint8_t* corner, size_t line, size_t patch_size, const LevelTable& table, float* to) {
  for (size_t channel = 0; channel < kImageChannels; ++channel) {
    for (size_t y = 0; y < patch_size; ++y) {
      const uint8_t* from = corner + y * line + channel;
      for (size_t x = 0; x < patch_size; ++x) *to++ = table[channel][from[x * kImageChannels]];
    }
  }
  return to;
}

}  // namespace

absl::StatusOr<ImageGrid> GridOf(const ImageProcessor& processor, ImageSize image) {
  const absl::StatusOr<ImageSize> size = TowerSize(processor, image);
  if (!size.ok()) return size.status();
  return GridOfTower(processor, *size);
}

void LimitEdge(int32_t edge, ImageProcessor* processor) {
  const int64_t pixels = std::max(edge, processor->patch_size * processor->merge_size);
  processor->longest_edge = static_cast<int32_t>(std::min<int64_t>(processor->longest_edge, pixels));
  processor->max_pixels = std::min(processor->max_pixels, pixels * pixels);
  processor->min_pixels = std::min(processor->min_pixels, processor->max_pixels);
}

int64_t MaxPatches(const ImageProcessor& processor) {
  return processor.sizing->max_pixels(processor) / (int64_t{processor.patch_size} * processor.patch_size);
}

absl::StatusOr<ImagePatches> MakePatches(const ImageProcessor& processor, const Image& image) {
  const absl::StatusOr<ImageSize> size = TowerSize(processor, image.size);
  if (!size.ok()) return size.status();
  const absl::StatusOr<Image> resized = ResizeImage(image, *size, processor.resample);
  if (!resized.ok()) return resized.status();
  const auto patch_size = static_cast<size_t>(processor.patch_size);
  const size_t line = static_cast<size_t>(size->width) * kImageChannels;
  const LevelTable table = TableOf(processor);
  ImagePatches patches = {.grid = GridOfTower(processor, *size), .values = std::vector<float>(resized->rgb.size())};
  float* to = patches.values.data();
  for (int64_t i = 0; i < patches.grid.num_patches(); ++i) {
    const PatchPlace place = PlaceOf(patches.grid, processor.merge_size, i);
    const size_t corner = static_cast<size_t>(place.row) * patch_size * line +
                          static_cast<size_t>(place.column) * patch_size * kImageChannels;
    to = AppendPatch(resized->rgb.data() + corner, line, patch_size, table, to);
  }
  return patches;
}

}  // namespace dunlin::text
