// SPDX-License-Identifier: Apache-2.0
// Separable resampling of RGB8 in fixed point. Each output is a weighted sum of the inputs under its filter; weights
// are computed in double, divided by their sum and rounded to 22 fraction bits, so that sums of 255 times them fit in
// 32 bits. Source: Pillow's documentation of Image.resize (filters, supports, two passes); Keys 1981 for the cubic, a =
// -0.5.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "text/images/image.h"

namespace dunlin::text {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = int32_t{1} << (kFractionBits - 1);

double Linear(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

double Cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

double Sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double Lanczos(double x) {
  return -3.0 <= x && x < 3.0 ? Sinc(x) * Sinc(x / 3.0) : 0.0;
}

struct FilterShape {
  double (*weight)(double x);
  double support;  // beyond it on either side weights are 0
};

FilterShape ShapeOf(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBilinear:
      return {&Linear, 1.0};
    case ResizeFilter::kBicubic:
      return {&Cubic, 2.0};
    case ResizeFilter::kLanczos:
      break;
  }
  return {&Lanczos, 3.0};
}

// The inputs under the filter at one output.
struct Window {
  size_t first;
  std::vector<int32_t> weights;
};

// Halves go up.
size_t Nearest(double place) {
  return static_cast<size_t>(std::max(0.0, std::floor(place + 0.5)));
}

Window WindowAt(size_t output, double scale, size_t num_inputs, const FilterShape& shape) {
  const double stretch = std::max(scale, 1.0);
  const double support = shape.support * stretch;
  const double center = (static_cast<double>(output) + 0.5) * scale;
  const size_t first = Nearest(center - support);
  const size_t end = std::min(num_inputs, Nearest(center + support));
  std::vector<double> weights;
  double sum = 0.0;
  for (size_t i = first; i < end; ++i) {
    weights.push_back(shape.weight((static_cast<double>(i) - center + 0.5) * (1.0 / stretch)));
    sum += weights.back();
  }
  Window window = {.first = first, .weights = {}};
  for (const double weight : weights) {
    const double part = sum == 0.0 ? weight : weight / sum;
    window.weights.push_back(static_cast<int32_t>(part * (1 << kFractionBits) + (part < 0 ? -0.5 : 0.5)));
  }
  return window;
}

std::vector<Window> WindowsOf(int32_t num_inputs, int32_t num_outputs, ResizeFilter filter) {
  const FilterShape shape = ShapeOf(filter);
  const double scale = static_cast<double>(num_inputs) / num_outputs;
  std::vector<Window> windows;
  windows.reserve(static_cast<size_t>(num_outputs));
  for (size_t i = 0; i < static_cast<size_t>(num_outputs); ++i) {
    windows.push_back(WindowAt(i, scale, static_cast<size_t>(num_inputs), shape));
  }
  return windows;
}

uint8_t Level(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

Image Empty(ImageSize size) {
  const size_t pixels = static_cast<size_t>(size.width) * static_cast<size_t>(size.height);
  return {.size = size, .rgb = std::vector<uint8_t>(pixels * kImageChannels)};
}

Image ToWidth(const Image& in, int32_t width, ResizeFilter filter) {
  Image out = Empty({.width = width, .height = in.size.height});
  const std::vector<Window> windows = WindowsOf(in.size.width, width, filter);
  uint8_t* to = out.rgb.data();
  for (size_t row = 0; row < static_cast<size_t>(in.size.height); ++row) {
    const uint8_t* line = in.rgb.data() + row * static_cast<size_t>(in.size.width) * kImageChannels;
    for (const Window& window : windows) {
      const uint8_t* from = line + window.first * kImageChannels;
      int32_t red = kHalf;
      int32_t green = kHalf;
      int32_t blue = kHalf;
      for (const int32_t weight : window.weights) {
        red += from[0] * weight;
        green += from[1] * weight;
        blue += from[2] * weight;
        from += kImageChannels;
      }
      *to++ = Level(red);
      *to++ = Level(green);
      *to++ = Level(blue);
    }
  }
  return out;
}

Image ToHeight(const Image& in, int32_t height, ResizeFilter filter) {
  Image out = Empty({.width = in.size.width, .height = height});
  const size_t line = static_cast<size_t>(in.size.width) * kImageChannels;
  std::vector<int32_t> sums(line);
  uint8_t* to = out.rgb.data();
  for (const Window& window : WindowsOf(in.size.height, height, filter)) {
    std::fill(sums.begin(), sums.end(), kHalf);
    const uint8_t* from = in.rgb.data() + window.first * line;
    for (const int32_t weight : window.weights) {
      for (size_t i = 0; i < line; ++i) sums[i] += from[i] * weight;
      from += line;
    }
    to = std::transform(sums.begin(), sums.end(), to, &Level);
  }
  return out;
}

bool IsSize(ImageSize size) {
  return size.width >= 1 && size.width <= kMaxImageSide && size.height >= 1 && size.height <= kMaxImageSide;
}

// Which of the two passes comes first is seen in the last bits; this is Pillow 13's rule.
bool TakesHeightFirst(ImageSize from, ImageSize to) {
  const int32_t rows_less = from.height - to.height;
  const int32_t columns_less = from.width - to.width;
  return rows_less > 0 && rows_less > 2 * columns_less;
}

}  // namespace

absl::StatusOr<Image> ResizeImage(const Image& image, ImageSize size, ResizeFilter filter) {
  for (const ImageSize& checked : {image.size, size}) {
    if (IsSize(checked)) continue;
    return absl::InvalidArgumentError(absl::StrCat("image size is ", checked.width, " x ", checked.height,
                                                   "; limit of a side is [1, ", kMaxImageSide, "]"));
  }
  const size_t expected =
      static_cast<size_t>(image.size.width) * static_cast<size_t>(image.size.height) * kImageChannels;
  if (image.rgb.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("an image of ", image.size.width, " x ", image.size.height, " has ",
                                                   image.rgb.size(), " bytes of pixels; must be ", expected));
  }
  const bool width_changes = size.width != image.size.width;
  if (width_changes && TakesHeightFirst(image.size, size)) {
    return ToWidth(ToHeight(image, size.height, filter), size.width, filter);
  }
  Image out = width_changes ? ToWidth(image, size.width, filter) : image;
  return size.height == image.size.height ? out : ToHeight(out, size.height, filter);
}

}  // namespace dunlin::text
