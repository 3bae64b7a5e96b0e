// What charts are drawn on: kCanvasWidth x kCanvasHeight units, y downwards, white. Everything opaque, in the order of
// the calls. A colour is 0xRRGGBB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dunlin::server::load {

constexpr double kCanvasWidth = 640;
constexpr double kCanvasHeight = 360;

struct Position {
  double x = 0;
  double y = 0;
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  Anchor anchor = Anchor::kStart;  // the part of the text that is at its position
  double size = 12;
  bool bold = false;
  bool upwards = false;  // read from below to above
};

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void Line(Position from, Position to, uint32_t color, bool dashed) = 0;
  virtual void Curve(const std::vector<Position>& points, uint32_t color) = 0;  // joined by straight lines, 2 wide
  virtual void Dot(Position center, uint32_t color) = 0;                        // of radius 3
  virtual void Bar(Position corner, double width, double height, uint32_t color) = 0;
  virtual void Text(Position at, const TextStyle& style, const std::string& text) = 0;
};

}  // namespace dunlin::server::load
