// SPDX-License-Identifier: Apache-2.0
#include "tools/load/svg.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dunlin::tools::load {

SvgPicture::SvgPicture(double width, double height)
    : svg_(absl::StrFormat(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
          "font-family=\"sans-serif\" fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          width, height, width, height)) {}

void SvgPicture::Line(Position from, Position to, uint32_t color, bool dashed) {
  absl::StrAppendFormat(&svg_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#%06x\"%s/>\n", from.x,
                        from.y, to.x, to.y, color, dashed ? " stroke-dasharray=\"4 3\"" : "");
}

void SvgPicture::Polyline(const std::vector<Position>& points, uint32_t color) {
  svg_ += "<polyline points=\"";
  for (size_t i = 0; i < points.size(); ++i) {
    absl::StrAppendFormat(&svg_, "%s%.1f,%.1f", i == 0 ? "" : " ", points[i].x, points[i].y);
  }
  absl::StrAppendFormat(&svg_, "\" fill=\"none\" stroke=\"#%06x\" stroke-width=\"2\"/>\n", color);
}

void SvgPicture::Dot(Position center, uint32_t color) {
  absl::StrAppendFormat(&svg_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#%06x\"/>\n", center.x, center.y, color);
}

void SvgPicture::Rectangle(Position corner, double width, double height, uint32_t color) {
  absl::StrAppendFormat(&svg_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%g\" height=\"%g\" fill=\"#%06x\"/>\n", corner.x,
                        corner.y, width, height, color);
}

void SvgPicture::Text(Position at, const TextStyle& style, const std::string& text) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  svg_ += "<text";
  if (style.vertical) {
    absl::StrAppendFormat(&svg_, " transform=\"translate(%.1f %.1f) rotate(-90)\"", at.x, at.y);
  } else {
    absl::StrAppendFormat(&svg_, " x=\"%.1f\" y=\"%.1f\"", at.x, at.y);
  }
  absl::StrAppendFormat(&svg_, " text-anchor=\"%s\" font-size=\"%g\"%s>%s</text>\n",
                        kAnchors[static_cast<int>(style.anchor)], style.size, style.bold ? " font-weight=\"bold\"" : "",
                        EscapeXml(text));
}

std::string SvgPicture::ToString() const {
  return svg_ + "</svg>\n";
}

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

}  // namespace dunlin::tools::load
