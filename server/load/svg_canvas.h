// Charts as SVG text. Pure; the same chart gives the same bytes.
#pragma once

#include <string>

#include "server/load/chart.h"

namespace dunlin::server::load {

std::string DrawSvg(const Chart& chart);

// &, <, >, " for XML and HTML.
std::string EscapeXml(const std::string& text);

}  // namespace dunlin::server::load
