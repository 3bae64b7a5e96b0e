// SPDX-License-Identifier: Apache-2.0
// Named shapes for "weights": "random" in benchmarks: each model's published config.json, reduced to the fields read.
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
