#include "server/load/svg_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dunlin::server::load {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 360;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr int kWantedTicks = 6;
// Told apart with all common kinds of colour blindness. Source: Okabe & Ito, "Color Universal Design", 2008.
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

// One direction of the plot: values to pixels.
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
  // A linear axis of heights begins at 0; ends are round.
  if (!chart.log_y) y->low = std::min(0.0, y->low);
  for (Axis* axis : {x, y}) {
    const std::vector<double> ticks = Ticks(axis->low, axis->high, axis->log);
    axis->low = std::min(axis->low, ticks.front());
    axis->high = std::max(axis->high, ticks.back());
  }
  return true;
}

std::string Number(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%gG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%gk", value / 1e3);
  return absl::StrFormat("%g", value);
}

void Line(double x1, double y1, double x2, double y2, const char* style, std::string* svg) {
  absl::StrAppendFormat(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style);
}

void Text(double x, double y, const char* style, const std::string& text, std::string* svg) {
  absl::StrAppendFormat(svg, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, EscapeXml(text));
}

void DrawAxes(const Chart& chart, const Axis& x, const Axis& y, std::string* svg) {
  constexpr char kGrid[] = "stroke=\"#ddd\"";
  for (const double tick : Ticks(x.low, x.high, x.log)) {
    if (tick < x.low || tick > x.high) continue;
    Line(x.At(tick), kTop, x.At(tick), kHeight - kBottom, kGrid, svg);
    Text(x.At(tick), kHeight - kBottom + 16, "text-anchor=\"middle\"", Number(tick), svg);
  }
  for (const double tick : Ticks(y.low, y.high, y.log)) {
    if (tick < y.low || tick > y.high) continue;
    Line(kLeft, y.At(tick), kWidth - kRight, y.At(tick), kGrid, svg);
    Text(kLeft - 6, y.At(tick) + 4, "text-anchor=\"end\"", Number(tick), svg);
  }
  Text((kLeft + kWidth - kRight) / 2, kHeight - 14, "text-anchor=\"middle\"", chart.x_label, svg);
  absl::StrAppendFormat(svg, "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
                        (kTop + kHeight - kBottom) / 2, EscapeXml(chart.y_label));
}

void DrawSeries(const Chart& chart, size_t index, const Axis& x, const Axis& y, std::string* svg) {
  const ChartSeries& series = chart.series[index];
  const char* color = kColors[index % std::size(kColors)];
  std::string line;
  std::string dots;
  for (const auto& point : series.points) {
    if (!Shown(chart, point)) continue;
    absl::StrAppendFormat(&line, "%s%.1f,%.1f", line.empty() ? "" : " ", x.At(point.first), y.At(point.second));
    absl::StrAppendFormat(&dots, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x.At(point.first),
                          y.At(point.second), color);
  }
  absl::StrAppendFormat(svg, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", line, color);
  if (chart.dots) svg->append(dots);
  const double legend_y = kTop + 14 + 16 * static_cast<double>(index);
  absl::StrAppendFormat(svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>\n", kLeft + 10,
                        legend_y - 6, color);
  Text(kLeft + 28, legend_y, "", series.name, svg);
}

}  // namespace

std::string EscapeXml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<double> Ticks(double low, double high, bool log) {
  std::vector<double> ticks;
  if (log) {
    const bool wide = std::log10(high / low) > 3;
    for (double decade = std::pow(10, std::floor(std::log10(low) + 1e-9)); ticks.empty() || ticks.back() < high;
         decade *= 10) {
      for (const double part : {1.0, 2.0, 5.0}) {
        if (part > 1 && wide) continue;
        const double tick = decade * part;
        if (tick <= low * (1 + 1e-9)) ticks.clear();  // only the last one that is not above low
        if (ticks.empty() || ticks.back() < high * (1 - 1e-9)) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double span = high > low ? high - low : std::max(1.0, std::abs(high));
  const double rough = span / kWantedTicks;
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
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" "
      "fill=\"#fff\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  Text(kLeft, 24, "font-size=\"15\" font-weight=\"bold\"", chart.title, &svg);
  Axis x{0, 1, chart.log_x, kLeft, kWidth - kRight};
  Axis y{0, 1, chart.log_y, kHeight - kBottom, kTop};
  if (!FindRange(chart, &x, &y)) {
    Text(kWidth / 2, kHeight / 2, "text-anchor=\"middle\"", "no data", &svg);
    return svg + "</svg>\n";
  }
  DrawAxes(chart, x, y, &svg);
  for (size_t i = 0; i < chart.series.size(); ++i) DrawSeries(chart, i, x, y, &svg);
  if (chart.marker.has_value() && chart.marker->first >= x.low && chart.marker->first <= x.high) {
    const double at = x.At(chart.marker->first);
    Line(at, kTop, at, kHeight - kBottom, "stroke=\"#222\" stroke-dasharray=\"4 3\"", &svg);
    Text(at, kTop - 4, "text-anchor=\"middle\"", chart.marker->second, &svg);
  }
  return svg + "</svg>\n";
}

}  // namespace dunlin::server::load
