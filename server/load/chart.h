// Line charts, drawn on any canvas. Pure; the same chart makes the same calls.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/load/canvas.h"

namespace dunlin::server::load {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // in the order in which they are joined
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // points with x <= 0 are left out then
  bool log_y = false;
  bool dots = false;  // at each point
  std::vector<ChartSeries> series;
  std::optional<std::pair<double, std::string>> marker;  // a vertical line at x, with its words
};

// A chart without points says "no data".
void Draw(const Chart& chart, Canvas* canvas);

// Ticks at round numbers that cover [low, high]; powers of ten and their 2 and 5 when `log`. REQUIRES: low <= high, and
// low > 0 when `log`.
std::vector<double> Ticks(double low, double high, bool log);

}  // namespace dunlin::server::load
