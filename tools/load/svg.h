// SPDX-License-Identifier: Apache-2.0
// An SVG picture under construction: opaque shapes on white, painted in the order of the calls, y downwards.
// Pure; the same calls give the same bytes. Colours are 0xRRGGBB, positions and sizes are in pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dunlin::tools::load {

struct Position {
  double x = 0;
  double y = 0;
};

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

struct TextStyle {
  Anchor anchor = Anchor::kStart;  // the part of the text that lies at its position
  double size = 12;
  bool bold = false;
  bool vertical = false;  // runs from bottom to top
};

class SvgPicture {
 public:
  SvgPicture(double width, double height);

  void Line(Position from, Position to, uint32_t color, bool dashed);
  void Polyline(const std::vector<Position>& points, uint32_t color);  // 2 wide
  void Dot(Position center, uint32_t color);                           // of radius 3
  void Rectangle(Position corner, double width, double height, uint32_t color);
  void Text(Position at, const TextStyle& style, const std::string& text);

  // The whole document.
  std::string ToString() const;

 private:
  std::string svg_;  // without the closing tag
};

// Escapes &, <, > and " for XML and HTML.
std::string EscapeXml(const std::string& text);

}  // namespace dunlin::tools::load
