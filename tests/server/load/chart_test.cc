// Charts: their ticks, as SVG text and as PNG pixels.
#include "server/load/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <string>
#include <vector>

#include "server/load/png_canvas.h"
#include "server/load/svg_canvas.h"

namespace dunlin::server::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_THAT(Ticks(0, 10, false), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(Ticks(3, 3, false).size(), testing::Ge(2U));
  EXPECT_THAT(Ticks(0.9, 40, true), ElementsAre(0.5, 1, 2, 5, 10, 20, 50));
  EXPECT_THAT(Ticks(1, 100000, true), ElementsAre(1, 10, 100, 1000, 10000, 100000));
  for (const double high : {0.001, 0.7, 12.0, 98765.0}) {
    const std::vector<double> ticks = Ticks(0, high, false);
    EXPECT_GE(ticks.back(), high * (1 - 1e-9));
    EXPECT_LE(ticks.size(), 9U);
  }
}

// The plot is 70..620 by 310..40: both axes go from 0 to 10.
Chart Diagonal() {
  Chart chart;
  chart.title = "a < b & c";
  chart.dots = true;
  chart.series.push_back({"line", {{0, 0}, {5, 5}, {10, 10}}});
  return chart;
}

TEST(Svg, DrawsPointsWhereTheyBelong) {
  const std::string svg = DrawSvg(Diagonal());
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,310.0 345.0,175.0 620.0,40.0\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"345.0\" cy=\"175.0\""));
}

TEST(Svg, WhatCannotBeDrawnIsLeftOut) {
  Chart chart;
  chart.log_x = true;
  chart.series.push_back({"line", {{0, 1}, {-5, 1}, {1, std::nan("")}}});
  EXPECT_THAT(DrawSvg(chart), HasSubstr("no data"));
  chart.series[0].points.emplace_back(10, 3);
  EXPECT_THAT(DrawSvg(chart), Not(HasSubstr("nan")));
}

// What a PNG shows, read back.
struct Picture {
  explicit Picture(const std::string& bytes) {
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) return;
    image.format = PNG_FORMAT_RGB;
    rgb.resize(PNG_IMAGE_SIZE(image));
    if (!png_image_finish_read(&image, nullptr, rgb.data(), 0, nullptr)) rgb.clear();
  }
  // 0xRRGGBB at a place of the chart.
  uint32_t At(double x, double y) const {
    const size_t row = static_cast<size_t>(y * kPngScale) * image.width;
    const uint8_t* pixel = &rgb.at(3 * (row + static_cast<size_t>(x * kPngScale)));
    return static_cast<uint32_t>(pixel[0]) << 16 | static_cast<uint32_t>(pixel[1]) << 8 | pixel[2];
  }
  // Pixels in a part of the chart that are nearer to black than to white.
  int64_t Dark(double left, double top, double right, double bottom) const {
    int64_t dark = 0;
    for (double y = top; y < bottom; y += 0.5) {
      for (double x = left; x < right; x += 0.5) dark += (At(x, y) & 255) < 128;
    }
    return dark;
  }

  png_image image = {};
  std::vector<uint8_t> rgb;
};

TEST(Png, ShowsWhatTheSvgSays) {
  const auto png = DrawPng(Diagonal());
  ASSERT_TRUE(png.ok()) << png.status();
  const Picture picture(*png);
  ASSERT_FALSE(picture.rgb.empty()) << picture.image.message;
  EXPECT_EQ(picture.image.width, 1280U);
  EXPECT_EQ(picture.image.height, 720U);
  EXPECT_EQ(picture.At(2, 2), 0xffffffU) << "the margin";
  EXPECT_EQ(picture.At(345, 175), 0x0072b2U) << "the dot in the middle";
  EXPECT_EQ(picture.At(345, 200), 0xffffffU) << "below it nothing";
  const double slope = 270.0 / 550;
  EXPECT_EQ(picture.At(200, 310 - 130 * slope), 0x0072b2U) << "on the line";
  EXPECT_EQ(picture.At(84, 50), 0x0072b2U) << "the bar of the legend";
}

TEST(Png, HasTheWordsOfTheChart) {
  Chart chart = Diagonal();
  chart.marker = {5, "knee"};
  const Picture with(*DrawPng(chart));
  EXPECT_GT(with.Dark(70, 10, 140, 30), 100) << "the title";
  EXPECT_GT(with.Dark(330, 28, 360, 38), 20) << "the words of the marker";
  EXPECT_GT(with.Dark(98, 44, 130, 56), 20) << "the name of the series";
  EXPECT_EQ(with.Dark(0, 100, 40, 250), 0) << "an empty label of the axis";
  chart.y_label = "tokens/s";
  EXPECT_GT(Picture(*DrawPng(chart)).Dark(0, 100, 40, 250), 50) << "it is written upwards";
}

TEST(Png, IsDrawnWithoutDataAndBeyondAscii) {
  Chart chart;
  chart.title = "\xe9\xff\x80\n";
  const auto png = DrawPng(chart);
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_GT(Picture(*png).Dark(280, 165, 360, 185), 50) << "no data";
  EXPECT_EQ(*png, *DrawPng(chart)) << "the same bytes each time";
}

}  // namespace
}  // namespace dunlin::server::load
