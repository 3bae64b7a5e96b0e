// SPDX-License-Identifier: Apache-2.0
#include "text/images/image.h"

#include "text/abi.h"

namespace dunlin::text {

absl::StatusOr<ImageSize> ReadImageSize(std::string_view file, const ImageLimits& limits) {
  dunlin_text_image_size size{};
  dunlin_text_error error{};
  const int32_t code = dunlin_text_image_read_size(text_abi::Data(file), file.size(), limits.max_pixels, &size, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return ImageSize{.width = size.width, .height = size.height};
}

absl::StatusOr<Image> DecodeImage(std::string_view file, const ImageLimits& limits) {
  dunlin_text_image_size size{};
  text_abi::Bytes rgb;
  dunlin_text_error error{};
  const int32_t code =
      dunlin_text_image_decode(text_abi::Data(file), file.size(), limits.max_pixels, &size, rgb.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return Image{.size = {.width = size.width, .height = size.height}, .rgb = rgb.TakeValues()};
}

}  // namespace dunlin::text
