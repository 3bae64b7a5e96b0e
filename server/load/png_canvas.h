// Charts as PNG pictures, kPngScale pixels a unit, with a vector font of their own: no font of the machine is read.
// Pure; the same chart gives the same pixels.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/load/chart.h"

namespace dunlin::server::load {

constexpr int kPngScale = 2;

// The bytes of a PNG file, 8-bit RGB. Characters beyond ASCII are drawn as "?". INTERNAL when libpng refuses.
absl::StatusOr<std::string> DrawPng(const Chart& chart);

}  // namespace dunlin::server::load
