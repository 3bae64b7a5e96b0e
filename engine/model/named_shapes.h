// Shapes that "weights": "random" knows by name, for benchmarks: the published config.json of each, cut to what counts.
#pragma once

#include <span>
#include <string_view>

namespace dunlin::engine {

struct NamedShape {
  const char* name;
  const char* config_json;
};

std::span<const NamedShape> NamedShapes();

// The row of that name, or null.
const NamedShape* FindNamedShape(std::string_view name);

}  // namespace dunlin::engine
