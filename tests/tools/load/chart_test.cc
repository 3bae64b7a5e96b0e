// SPDX-License-Identifier: Apache-2.0
// Charts: their ticks and their SVG.
#include "tools/load/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace dunlin::tools::load {
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

TEST(Svg, PlacesPointsOnBothAxes) {
  const std::string svg = DrawSvg(Diagonal());
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,310.0 345.0,175.0 620.0,40.0\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"345.0\" cy=\"175.0\""));
}

TEST(Svg, LeavesOutPointsThatCannotBeDrawn) {
  Chart chart;
  chart.log_x = true;
  chart.series.push_back({"line", {{0, 1}, {-5, 1}, {1, std::nan("")}}});
  EXPECT_THAT(DrawSvg(chart), HasSubstr("no data"));
  chart.series[0].points.emplace_back(10, 3);
  EXPECT_THAT(DrawSvg(chart), Not(HasSubstr("nan")));
}

TEST(Svg, ContainsTitleMarkerLegendAndVerticalLabel) {
  Chart chart = Diagonal();
  chart.y_label = "tokens/s";
  chart.marker = {5, "knee"};
  const std::string svg = DrawSvg(chart);
  EXPECT_THAT(svg, HasSubstr("font-weight=\"bold\">a &lt; b &amp; c</text>"));
  EXPECT_THAT(svg, HasSubstr("x1=\"345.0\" y1=\"40.0\" x2=\"345.0\" y2=\"310.0\" stroke=\"#222222\" stroke-dasharray"));
  EXPECT_THAT(svg, HasSubstr(">knee</text>"));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"80.0\" y=\"48.0\" width=\"12\" height=\"4\" fill=\"#0072b2\"/>"));
  EXPECT_THAT(svg, HasSubstr(">line</text>"));
  EXPECT_THAT(
      svg,
      HasSubstr("transform=\"translate(16.0 175.0) rotate(-90)\" text-anchor=\"middle\" font-size=\"12\">tokens/s"));
}

TEST(Svg, GivesTheSameBytesEachTime) {
  EXPECT_EQ(DrawSvg(Diagonal()), DrawSvg(Diagonal()));
}

}  // namespace
}  // namespace dunlin::tools::load
