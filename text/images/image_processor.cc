// SPDX-License-Identifier: Apache-2.0
#include "text/images/image_processor.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"

namespace dunlin::text {
namespace {

using engine::JsonFields;
using nlohmann::json;

constexpr char kProcessorFile[] = "processor_config.json";
constexpr char kImageFile[] = "preprocessor_config.json";
constexpr int64_t kMaxLongestEdge = 16384;               // pixels; released models have at most 1540
constexpr int64_t kMaxPatchSize = 256;                   // pixels
constexpr int64_t kMaxMergeSize = 16;                    // patches
constexpr int64_t kMaxFrames = 16;                       // of a video that a patch has
constexpr int64_t kMaxResizedPixels = int64_t{1} << 28;  // released models have at most 2^24
constexpr double kMaxAspect = 200;                       // of a longer side to the shorter one

// Pixtral: no side is longer than longest_edge; then both are rounded up to whole squares.
void ReadLongestEdge(JsonFields* fields, ImageProcessor* processor) {
  const json* size = fields->Object("size");
  if (size == nullptr) return;
  JsonFields inner(*size, absl::StrCat(fields->where(), ": size"));
  processor->longest_edge = static_cast<int32_t>(inner.Int("longest_edge", 1, kMaxLongestEdge));
  fields->Adopt(inner.status());
}

absl::StatusOr<ImageSize> SizeWithinLongestEdge(const ImageProcessor& processor, ImageSize image) {
  double width = image.width;
  double height = image.height;
  const double edge = processor.longest_edge;
  const double ratio = std::max(height / edge, width / edge);
  if (ratio > 1) {
    width = std::floor(width / ratio);
    height = std::floor(height / ratio);
  }
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("is ", image.width, " x ", image.height,
                                                   " pixels; its shorter side has none where the longer one has ",
                                                   processor.longest_edge, " (size.longest_edge)"));
  }
  const int32_t square = processor.patch_size * processor.merge_size;
  const auto whole = [square](double side) { return (static_cast<int32_t>(side) - 1) / square * square + square; };
  return ImageSize{.width = whole(width), .height = whole(height)};
}

int64_t PixelsWithinLongestEdge(const ImageProcessor& processor) {
  const int64_t square = int64_t{processor.patch_size} * processor.merge_size;
  const int64_t side = (processor.longest_edge + square - 1) / square * square;
  return side * side;
}

// Qwen: whole squares, of which both sides are near the image's, and pixels in [min_pixels, max_pixels]. Either may be
// a field of its own, which counts.
void ReadPixelRange(JsonFields* fields, ImageProcessor* processor) {
  processor->patch_size = 14;
  processor->merge_size = static_cast<int32_t>(fields->IntOr("merge_size", 1, kMaxMergeSize, 2));
  fields->IntOr("temporal_patch_size", 1, kMaxFrames, 2);
  processor->min_pixels = int64_t{56} * 56;
  processor->max_pixels = int64_t{28} * 28 * 1280;
  if (const json* size = fields->Object("size"); size != nullptr) {
    JsonFields inner(*size, absl::StrCat(fields->where(), ": size"));
    const auto edge = [&](const char* name, const char* own, int64_t* pixels) {
      if (inner.Has(name) || !fields->Has(own)) *pixels = inner.Int(name, 1, kMaxResizedPixels);
    };
    edge("shortest_edge", "min_pixels", &processor->min_pixels);
    edge("longest_edge", "max_pixels", &processor->max_pixels);
    fields->Adopt(inner.status());
  }
  processor->min_pixels = fields->IntOr("min_pixels", 1, kMaxResizedPixels, processor->min_pixels);
  processor->max_pixels = fields->IntOr("max_pixels", 1, kMaxResizedPixels, processor->max_pixels);
  if (!fields->status().ok() || processor->min_pixels <= processor->max_pixels) return;
  fields->Fail(absl::StrCat("size: shortest_edge (min_pixels) is ", processor->min_pixels,
                            " and longest_edge (max_pixels) ", processor->max_pixels, "; must not be less"));
}

// Python's round, halves to even, as nearbyint does by default.
absl::StatusOr<ImageSize> SizeWithinPixels(const ImageProcessor& processor, ImageSize image) {
  const double width = image.width;
  const double height = image.height;
  const double square = processor.patch_size * processor.merge_size;
  if (std::max(width, height) / std::min(width, height) > kMaxAspect) {
    return absl::InvalidArgumentError(absl::StrCat("is ", image.width, " x ", image.height,
                                                   " pixels; the longer side must be at most ", kMaxAspect,
                                                   " times the shorter one"));
  }
  const auto size = [](double wide, double high) {
    return ImageSize{.width = static_cast<int32_t>(wide), .height = static_cast<int32_t>(high)};
  };
  const double near_width = std::nearbyint(width / square) * square;
  const double near_height = std::nearbyint(height / square) * square;
  const auto max_pixels = static_cast<double>(processor.max_pixels);
  const auto min_pixels = static_cast<double>(processor.min_pixels);
  if (near_width * near_height > max_pixels) {
    const double beta = std::sqrt(height * width / max_pixels);
    const auto down = [&](double side) { return std::max(square, std::floor(side / beta / square) * square); };
    return size(down(width), down(height));
  }
  if (near_width * near_height < min_pixels) {
    const double beta = std::sqrt(min_pixels / (height * width));
    const auto up = [&](double side) { return std::ceil(side * beta / square) * square; };
    return size(up(width), up(height));
  }
  return size(near_width, near_height);
}

// Above max_pixels are the narrowest images, which keep one square, and where both limits are near small ones, of which
// each side is rounded up.
int64_t PixelsWithinRange(const ImageProcessor& processor) {
  const double square = processor.patch_size * processor.merge_size;
  const auto max_pixels = static_cast<double>(processor.max_pixels);
  const auto min_pixels = static_cast<double>(processor.min_pixels);
  const double narrowest = square * std::max(square, std::sqrt(max_pixels * kMaxAspect));
  const double longer = std::sqrt(min_pixels * kMaxAspect);
  const double rounded_up = min_pixels + square * (longer + min_pixels / longer) + square * square;
  return static_cast<int64_t>(std::max({max_pixels, narrowest, rounded_up}));
}

constexpr ImageSizing kSizings[] = {
    {"PixtralImageProcessor", &ReadLongestEdge, &SizeWithinLongestEdge, &PixelsWithinLongestEdge},
    {"PixtralImageProcessorFast", &ReadLongestEdge, &SizeWithinLongestEdge, &PixelsWithinLongestEdge},
    {"PixtralImageProcessorPil", &ReadLongestEdge, &SizeWithinLongestEdge, &PixelsWithinLongestEdge},
    {"Qwen2VLImageProcessor", &ReadPixelRange, &SizeWithinPixels, &PixelsWithinRange},
    {"Qwen2VLImageProcessorFast", &ReadPixelRange, &SizeWithinPixels, &PixelsWithinRange},
    {"Qwen2VLImageProcessorPil", &ReadPixelRange, &SizeWithinPixels, &PixelsWithinRange},
};

absl::StatusOr<const ImageSizing*> FindSizing(JsonFields* fields) {
  const std::string type = fields->TextOr("image_processor_type", "");
  if (!fields->status().ok()) return fields->status();
  const auto* found =
      std::find_if(std::begin(kSizings), std::end(kSizings), [&](const ImageSizing& row) { return type == row.type; });
  if (found != std::end(kSizings)) return found;
  const std::string known =
      absl::StrJoin(kSizings, ", ", [](std::string* out, const ImageSizing& row) { absl::StrAppend(out, row.type); });
  return absl::FailedPreconditionError(
      absl::StrCat(fields->where(), ": image_processor_type is \"", type, "\"; supported are ", known));
}

// A number, or an object with an equal height and width.
int32_t ReadPatchSize(const json& object, JsonFields* fields, int32_t fallback) {
  if (!object.contains("patch_size") || !object["patch_size"].is_object()) {
    return static_cast<int32_t>(fields->IntOr("patch_size", 1, kMaxPatchSize, fallback));
  }
  JsonFields inner(*fields->Object("patch_size"), absl::StrCat(fields->where(), ": patch_size"));
  const int64_t height = inner.Int("height", 1, kMaxPatchSize);
  const int64_t width = inner.Int("width", 1, kMaxPatchSize);
  if (height != width) inner.Fail(absl::StrCat("height is ", height, " and width ", width, "; must be equal"));
  fields->Adopt(inner.status());
  return static_cast<int32_t>(height);
}

void ReadChannels(JsonFields* fields, const char* name, double min, double max, std::array<double, 3>* values) {
  if (!fields->Has(name)) return;
  const std::vector<double> read = fields->NumberListOr(name, min, max, values->size());
  if (!fields->status().ok()) return;
  if (read.size() != values->size()) {
    return fields->Fail(absl::StrCat(name, " has ", read.size(), " entries; must be ", values->size()));
  }
  std::copy(read.begin(), read.end(), values->begin());
}

// Pillow's numbers.
ResizeFilter ReadFilter(JsonFields* fields) {
  switch (fields->IntOr("resample", 1, 3, 3)) {
    case 1:
      return ResizeFilter::kLanczos;
    case 2:
      return ResizeFilter::kBilinear;
    default:
      return ResizeFilter::kBicubic;
  }
}

absl::StatusOr<ImageProcessor> ReadImageFields(const json& object, const std::string& where) {
  JsonFields fields(object, where);
  ImageProcessor processor;
  const absl::StatusOr<const ImageSizing*> sizing = FindSizing(&fields);
  if (!sizing.ok()) return sizing.status();
  processor.sizing = *sizing;
  processor.sizing->read(&fields, &processor);
  processor.patch_size = ReadPatchSize(object, &fields, processor.patch_size);
  processor.do_resize = fields.BoolOr("do_resize", processor.do_resize);
  processor.do_rescale = fields.BoolOr("do_rescale", processor.do_rescale);
  processor.do_normalize = fields.BoolOr("do_normalize", processor.do_normalize);
  processor.resample = ReadFilter(&fields);
  processor.rescale_factor = fields.NumberOr("rescale_factor", 1e-6, 1.0, processor.rescale_factor);
  ReadChannels(&fields, "image_mean", -256.0, 256.0, &processor.image_mean);
  ReadChannels(&fields, "image_std", 1e-6, 256.0, &processor.image_std);
  (void)fields.BoolOr("do_convert_rgb", true);  // images are RGB in any case
  if (fields.BoolOr("do_center_crop", false)) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": do_center_crop is true; images are not cropped"));
  }
  if (!fields.status().ok()) return fields.status();
  return processor;
}

absl::StatusOr<json> ReadJson(const engine::TextFiles& files, const char* name) {
  const absl::StatusOr<std::string> text = files.ReadFile(name, kMaxImageProcessorBytes);
  // A link to nothing is no absent file: a download that is not complete.
  if (absl::IsNotFound(text.status()) && files.Has(name)) {
    return absl::InvalidArgumentError(text.status().message());
  }
  if (!text.ok()) return text.status();
  return engine::ParseJsonObject(*text, name);
}

absl::StatusOr<ImageProcessor> ReadImagePart(const engine::TextFiles& files, JsonFields* outer) {
  if (const json* nested = outer->Object("image_processor"); nested != nullptr) {
    return ReadImageFields(*nested, absl::StrCat(kProcessorFile, ": image_processor"));
  }
  if (!outer->status().ok()) return outer->status();
  const absl::StatusOr<json> own = ReadJson(files, kImageFile);
  if (!own.ok()) return own.status();
  return ReadImageFields(*own, kImageFile);
}

}  // namespace

absl::StatusOr<ImageProcessor> LoadImageProcessor(const engine::TextFiles& files) {
  absl::StatusOr<json> outer = ReadJson(files, kProcessorFile);
  if (absl::IsNotFound(outer.status())) outer = json::object();
  if (!outer.ok()) return outer.status();
  JsonFields fields(*outer, kProcessorFile);
  absl::StatusOr<ImageProcessor> processor = ReadImagePart(files, &fields);
  if (!processor.ok()) return processor.status();
  processor->patch_size = ReadPatchSize(*outer, &fields, processor->patch_size);
  processor->merge_size =
      static_cast<int32_t>(fields.IntOr("spatial_merge_size", 1, kMaxMergeSize, processor->merge_size));
  if (!fields.status().ok()) return fields.status();
  return processor;
}

absl::StatusOr<ImageProcessor> LoadImageProcessor(const std::string& model_dir) {
  const absl::StatusOr<engine::Directory> directory = engine::Directory::Open(model_dir);
  if (!directory.ok()) return directory.status();
  return LoadImageProcessor(*directory);
}

}  // namespace dunlin::text
