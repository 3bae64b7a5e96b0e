#include "server/load/png_canvas.h"

#include <agg_conv_dash.h>
#include <agg_conv_stroke.h>
#include <agg_conv_transform.h>
#include <agg_ellipse.h>
#include <agg_gsv_text.h>
#include <agg_path_storage.h>
#include <agg_pixfmt_rgb.h>
#include <agg_rasterizer_scanline_aa.h>
#include <agg_renderer_base.h>
#include <agg_renderer_scanline.h>
#include <agg_scanline_p.h>
#include <agg_trans_affine.h>
#include <png.h>

#include <numbers>

namespace dunlin::server::load {
namespace {

constexpr int kWidth = static_cast<int>(kCanvasWidth) * kPngScale;    // pixels
constexpr int kHeight = static_cast<int>(kCanvasHeight) * kPngScale;  // pixels
constexpr int kRowBytes = kWidth * 3;
constexpr uint32_t kTextColor = 0x222222;
// The font counts the height of a capital letter, a text style its em.
constexpr double kCapitalPerEm = 0.72;
constexpr double kLetterAspect = 0.92;  // of its width to its height, so that it runs as wide as a usual sans serif

agg::rgba8 Color(uint32_t color) {
  return {color >> 16 & 255, color >> 8 & 255, color & 255};
}

class PngCanvas : public Canvas {
 public:
  PngCanvas() : rows_(pixels_.data(), kWidth, kHeight, kRowBytes), format_(rows_), base_(format_) {
    base_.clear(Color(0xffffff));
  }

  void Line(Position from, Position to, uint32_t color, bool dashed) override {
    agg::path_storage path;
    path.move_to(from.x, from.y);
    path.line_to(to.x, to.y);
    if (!dashed) return Stroke(path, 1, color);
    agg::conv_dash<agg::path_storage> dashes(path);
    dashes.add_dash(4, 3);
    Stroke(dashes, 1, color);
  }

  void Curve(const std::vector<Position>& points, uint32_t color) override {
    agg::path_storage path;
    for (size_t i = 0; i < points.size(); ++i) {
      i == 0 ? path.move_to(points[i].x, points[i].y) : path.line_to(points[i].x, points[i].y);
    }
    Stroke(path, 2, color);
  }

  void Dot(Position center, uint32_t color) override {
    agg::ellipse circle(center.x, center.y, 3, 3, 32);
    Fill(circle, agg::trans_affine(), color);
  }

  void Bar(Position corner, double width, double height, uint32_t color) override {
    agg::path_storage path;
    path.move_to(corner.x, corner.y);
    path.line_to(corner.x + width, corner.y);
    path.line_to(corner.x + width, corner.y + height);
    path.line_to(corner.x, corner.y + height);
    path.close_polygon();
    Fill(path, agg::trans_affine(), color);
  }

  void Text(Position at, const TextStyle& style, const std::string& text) override {
    std::string drawn = text;
    for (char& c : drawn) c = c >= ' ' && c <= '~' ? c : '?';
    const double height = style.size * kCapitalPerEm;
    agg::gsv_text letters;
    letters.flip(true);
    letters.size(height, height * kLetterAspect);
    letters.text(drawn.c_str());
    constexpr double kBefore[] = {0, 0.5, 1};  // of the width, by anchor
    letters.start_point(-kBefore[static_cast<int>(style.anchor)] * letters.text_width(), 0);
    agg::conv_stroke<agg::gsv_text> outline(letters);
    outline.width(style.bold ? 1.6 : 1.0);
    outline.line_join(agg::round_join);
    outline.line_cap(agg::round_cap);
    agg::trans_affine place;
    if (style.upwards) place *= agg::trans_affine_rotation(-std::numbers::pi / 2);
    place *= agg::trans_affine_translation(at.x, at.y);
    Fill(outline, place, kTextColor);
  }

  const void* pixels() const { return pixels_.data(); }

 private:
  template <class Path>
  void Stroke(Path& path, double width, uint32_t color) {
    agg::conv_stroke<Path> outline(path);
    outline.width(width);
    outline.line_join(agg::round_join);
    Fill(outline, agg::trans_affine(), color);
  }

  template <class Shape>
  void Fill(Shape& shape, agg::trans_affine place, uint32_t color) {
    place *= agg::trans_affine_scaling(kPngScale);
    agg::conv_transform<Shape> placed(shape, place);
    agg::rasterizer_scanline_aa<> rasterizer;
    rasterizer.add_path(placed);
    agg::scanline_p8 scanline;
    agg::render_scanlines_aa_solid(rasterizer, scanline, base_, Color(color));
  }

  std::vector<uint8_t> pixels_ = std::vector<uint8_t>(size_t{kRowBytes} * kHeight);
  agg::rendering_buffer rows_;
  agg::pixfmt_rgb24 format_;
  agg::renderer_base<agg::pixfmt_rgb24> base_;
};

}  // namespace

absl::StatusOr<std::string> DrawPng(const Chart& chart) {
  PngCanvas canvas;
  Draw(chart, &canvas);
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = kWidth;
  image.height = kHeight;
  image.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, canvas.pixels(), kRowBytes, nullptr)) {
    return absl::InternalError(std::string("libpng: ") + image.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace dunlin::server::load
