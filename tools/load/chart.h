// SPDX-License-Identifier: Apache-2.0
// Line charts, drawn as SVG. Pure; the same chart gives the same bytes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dunlin::tools::load {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // joined in this order
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // points with x <= 0 are left out then
  bool log_y = false;
  bool dots = false;  // at each point
  std::vector<ChartSeries> series;
  std::optional<std::pair<double, std::string>> marker;  // a vertical line at x, labelled
};

// The chart as one SVG document of 640 x 360 pixels; without points it says "no data".
std::string DrawSvg(const Chart& chart);

// Ticks at round numbers that cover [low, high]; powers of ten and their 2 and 5 when `log`. REQUIRES: low <= high, and
// low > 0 when `log`.
std::vector<double> Ticks(double low, double high, bool log);

}  // namespace dunlin::tools::load
