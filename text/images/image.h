// SPDX-License-Identifier: Apache-2.0
// Pictures: the bytes of a PNG, JPEG, WebP or GIF file to pixels, by the Rust library (text/rust/src/image), and pixels
// to another size as Pillow resizes them.
// Thread rule: plain values; the functions from any thread. All take time linear in the file or the pixels and
// allocate: call them on the text pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace dunlin::text {

inline constexpr int32_t kMaxImageSide = 65535;  // pixels of a width or a height
inline constexpr size_t kImageChannels = 3;      // red, green, blue

struct ImageLimits {
  int64_t max_pixels;  // width times height; decoding takes up to 16 bytes for each
};

// In pixels. Of an image that was read, both in [1, kMaxImageSide].
struct ImageSize {
  int32_t width = 0;
  int32_t height = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

struct Image {
  ImageSize size;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// The size as the image is to be looked at, after its EXIF orientation. No pixel is decoded. Errors: INVALID_ARGUMENT
// (none of the four formats, cut short, corrupt, over a limit), as DecodeImage, which may find more.
absl::StatusOr<ImageSize> ReadImageSize(std::string_view file, const ImageLimits& limits);

// The image after its EXIF orientation, in RGB of 8 bits; of an animation the first frame. What is transparent lies on
// white. Of 16 bits the upper 8 are taken; CMYK becomes RGB by multiplication, without colour profiles. Nothing that
// grows with the image is allocated before its size is checked. Errors: INVALID_ARGUMENT, with what is wrong and the
// limit; INTERNAL (a decoder has a bug that this file shows).
absl::StatusOr<Image> DecodeImage(std::string_view file, const ImageLimits& limits);

// Pillow's filters with antialiasing: going down, a filter is as wide as the pixels that become one.
enum class ResizeFilter { kBilinear, kBicubic, kLanczos };

// Pillow's resize of an RGB image, to the bit: width before height, weights of 22 fraction bits, 8 bits between the
// two. Errors: INVALID_ARGUMENT (a side outside [1, kMaxImageSide], rgb of another size).
absl::StatusOr<Image> ResizeImage(const Image& image, ImageSize size, ResizeFilter filter);

}  // namespace dunlin::text
