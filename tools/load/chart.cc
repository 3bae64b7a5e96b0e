// SPDX-License-Identifier: Apache-2.0
#include "tools/load/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "tools/load/svg.h"

namespace dunlin::tools::load {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 360;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr int kTargetTicks = 6;
// Distinguishable with all common kinds of colour blindness. Source: Okabe & Ito, "Color Universal Design", 2008.
constexpr uint32_t kColors[] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9};
constexpr uint32_t kGridColor = 0xdddddd;
constexpr uint32_t kMarkerColor = 0x222222;

// One axis of the plot: maps values to pixels.
struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;
  double from_pixel = 0;
  double to_pixel = 1;

  double At(double value) const {
    const double a = log ? std::log10(low) : low;
    const double b = log ? std::log10(high) : high;
    const double v = log ? std::log10(value) : value;
    return from_pixel + (b > a ? (v - a) / (b - a) : 0.5) * (to_pixel - from_pixel);
  }
};

bool Shown(const Chart& chart, const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second) && (!chart.log_x || point.first > 0) &&
         (!chart.log_y || point.second > 0);
}

// False when there is nothing to show.
bool FindRange(const Chart& chart, Axis* x, Axis* y) {
  bool any = false;
  for (const ChartSeries& series : chart.series) {
    for (const auto& point : series.points) {
      if (!Shown(chart, point)) continue;
      x->low = any ? std::min(x->low, point.first) : point.first;
      x->high = any ? std::max(x->high, point.first) : point.first;
      y->low = any ? std::min(y->low, point.second) : point.second;
      y->high = any ? std::max(y->high, point.second) : point.second;
      any = true;
    }
  }
  if (!any) return false;
  // A linear y axis begins at 0; both ends are round numbers.
  if (!chart.log_y) y->low = std::min(0.0, y->low);
  for (Axis* axis : {x, y}) {
    const std::vector<double> ticks = Ticks(axis->low, axis->high, axis->log);
    axis->low = std::min(axis->low, ticks.front());
    axis->high = std::max(axis->high, ticks.back());
  }
  return true;
}

std::string NumberText(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%gG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%gk", value / 1e3);
  return absl::StrFormat("%g", value);
}

void DrawAxes(const Chart& chart, const Axis& x, const Axis& y, SvgPicture* picture) {
  constexpr double kRightEnd = kWidth - kRight;
  constexpr double kBottomEnd = kHeight - kBottom;
  for (const double tick : Ticks(x.low, x.high, x.log)) {
    if (tick < x.low || tick > x.high) continue;
    picture->Line({x.At(tick), kTop}, {x.At(tick), kBottomEnd}, kGridColor, false);
    picture->Text({x.At(tick), kBottomEnd + 16}, {Anchor::kMiddle}, NumberText(tick));
  }
  for (const double tick : Ticks(y.low, y.high, y.log)) {
    if (tick < y.low || tick > y.high) continue;
    picture->Line({kLeft, y.At(tick)}, {kRightEnd, y.At(tick)}, kGridColor, false);
    picture->Text({kLeft - 6, y.At(tick) + 4}, {Anchor::kEnd}, NumberText(tick));
  }
  picture->Text({(kLeft + kRightEnd) / 2, kHeight - 14}, {Anchor::kMiddle}, chart.x_label);
  picture->Text({16, (kTop + kBottomEnd) / 2}, {.anchor = Anchor::kMiddle, .vertical = true}, chart.y_label);
}

void DrawSeries(const Chart& chart, size_t index, const Axis& x, const Axis& y, SvgPicture* picture) {
  const ChartSeries& series = chart.series[index];
  const uint32_t color = kColors[index % std::size(kColors)];
  std::vector<Position> points;
  for (const auto& point : series.points) {
    if (Shown(chart, point)) points.push_back({x.At(point.first), y.At(point.second)});
  }
  picture->Polyline(points, color);
  for (size_t i = 0; chart.dots && i < points.size(); ++i) picture->Dot(points[i], color);
  const double legend_y = kTop + 14 + 16 * static_cast<double>(index);
  picture->Rectangle({kLeft + 10, legend_y - 6}, 12, 4, color);
  picture->Text({kLeft + 28, legend_y}, {}, series.name);
}

void DrawMarker(const std::pair<double, std::string>& marker, const Axis& x, SvgPicture* picture) {
  if (marker.first < x.low || marker.first > x.high) return;
  const double at = x.At(marker.first);
  picture->Line({at, kTop}, {at, kHeight - kBottom}, kMarkerColor, true);
  picture->Text({at, kTop - 4}, {Anchor::kMiddle}, marker.second);
}

}  // namespace

std::vector<double> Ticks(double low, double high, bool log) {
  std::vector<double> ticks;
  if (log) {
    const bool wide = std::log10(high / low) > 3;
    for (double decade = std::pow(10, std::floor(std::log10(low) + 1e-9)); ticks.empty() || ticks.back() < high;
         decade *= 10) {
      for (const double part : {1.0, 2.0, 5.0}) {
        if (part > 1 && wide) continue;
        const double tick = decade * part;
        if (tick <= low * (1 + 1e-9)) ticks.clear();  // keep only the last one that is not above low
        if (ticks.empty() || ticks.back() < high * (1 - 1e-9)) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double span = high > low ? high - low : std::max(1.0, std::abs(high));
  const double rough = span / kTargetTicks;
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * decade;
  for (const double part : {5.0, 2.0, 1.0}) {
    if (part * decade >= rough * (1 - 1e-9)) step = part * decade;
  }
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(std::max(high, low + span) / step - 1e-9));
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string DrawSvg(const Chart& chart) {
  SvgPicture picture(kWidth, kHeight);
  picture.Text({kLeft, 24}, {.size = 15, .bold = true}, chart.title);
  Axis x{0, 1, chart.log_x, kLeft, kWidth - kRight};
  Axis y{0, 1, chart.log_y, kHeight - kBottom, kTop};
  if (!FindRange(chart, &x, &y)) {
    picture.Text({kWidth / 2, kHeight / 2}, {Anchor::kMiddle}, "no data");
    return picture.ToString();
  }
  DrawAxes(chart, x, y, &picture);
  for (size_t i = 0; i < chart.series.size(); ++i) DrawSeries(chart, i, x, y, &picture);
  if (chart.marker.has_value()) DrawMarker(*chart.marker, x, &picture);
  return picture.ToString();
}

}  // namespace dunlin::tools::load
