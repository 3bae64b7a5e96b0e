// SPDX-License-Identifier: Apache-2.0
// What a model's image processor does: an image to the patches that the vision tower multiplies, as transformers'
// PixtralImageProcessor and Qwen2VLImageProcessor make them.
// Thread rule: a processor is immutable once loaded; the functions from any thread.
// Source: preprocessor_config.json and processor_config.json as transformers 5.24 reads them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/base/json_fields.h"
#include "engine/request/image_grid.h"
#include "text/images/image.h"

namespace dunlin::text {

struct ImageProcessor;

// The processors of one image_processor_type: a row of the table in image_processor.cc.
struct ImageSizing {
  const char* type;
  // Reads the fields that `size_of` needs.
  void (*read)(engine::JsonFields* fields, ImageProcessor* processor);
  // The size that an image of this size is resized to. Errors: INVALID_ARGUMENT.
  absl::StatusOr<ImageSize> (*size_of)(const ImageProcessor& processor, ImageSize image);
  // The most pixels that size_of gives.
  int64_t (*max_pixels)(const ImageProcessor& processor);
};

// The fields of the files, under their names, with transformers' defaults.
struct ImageProcessor {
  const ImageSizing* sizing = nullptr;  // never null once loaded
  int32_t patch_size = 16;              // pixels of a patch's side
  int32_t merge_size = 1;               // spatial_merge_size: patches of a side of the square that the model merges
  int32_t longest_edge = 1024;          // pixels; of size, as Pixtral has it
  int64_t min_pixels = 0;               // of an image, as Qwen has them: size.shortest_edge and longest_edge
  int64_t max_pixels = 0;
  bool do_resize = true;
  bool do_rescale = true;
  bool do_normalize = true;
  ResizeFilter resample = ResizeFilter::kBicubic;
  double rescale_factor = 1.0 / 255.0;
  std::array<double, 3> image_mean = {0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> image_std = {0.26862954, 0.26130258, 0.27577711};
};

inline constexpr uint64_t kMaxImageProcessorBytes = uint64_t{1} << 20;  // of either file

// From the model's processor_config.json, under image_processor, or else its preprocessor_config.json; patch_size and
// spatial_merge_size of processor_config.json, where it has them. Errors: NOT_FOUND (neither file says what is done
// with images); FAILED_PRECONDITION (an image_processor_type that is not known, or what no processor here does);
// INVALID_ARGUMENT (a field outside its limit). Messages name file, field, value and limit.
absl::StatusOr<ImageProcessor> LoadImageProcessor(const engine::TextFiles& files);
absl::StatusOr<ImageProcessor> LoadImageProcessor(const std::string& model_dir);

using engine::ImageGrid;  // in patches, both multiples of merge_size
using engine::PatchPlace;
using engine::PlaceOf;

// The patches of an image of this size. Errors: INVALID_ARGUMENT (too narrow for one; without do_resize, not of whole
// squares).
absl::StatusOr<ImageGrid> GridOf(const ImageProcessor& processor, ImageSize image);

// Images become no larger than a square of this edge, in pixels, or than one row of the model's where that is larger.
void LimitEdge(int32_t edge, ImageProcessor* processor);

// The most patches that GridOf gives, for which an encoder's memory is planned; without do_resize those of the largest
// image that would need no resizing, and larger ones may come.
int64_t MaxPatches(const ImageProcessor& processor);

struct ImagePatches {
  ImageGrid grid;
  // [grid.num_patches(), 3 * patch_size * patch_size], patches in the order of PlaceOf, and in each: channel, y, x, as
  // the weight of a convolution [out, 3, patch_size, patch_size] has them. Of a convolution over frames, too, each of
  // which the image is, they are those of one frame.
  std::vector<float> values;
};

// The image resized, rescaled and normalized, in patches. Errors: those of GridOf and ResizeImage.
absl::StatusOr<ImagePatches> MakePatches(const ImageProcessor& processor, const Image& image);

}  // namespace dunlin::text
