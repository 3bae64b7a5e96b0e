// SPDX-License-Identifier: Apache-2.0
// The charts of a result, and the page that shows them. Pure: everything is read from the JSON result.
#pragma once

#include <string>
#include <vector>

#include "tools/load/chart.h"
#include "tools/load/result.h"

namespace dunlin::tools::load {

struct NamedChart {
  std::string file_name;  // without extension: "ttft_distribution"
  Chart chart;
};

// Of a run: distribution of TTFT and of ITL, throughput, requests and (with --server-metrics) the server's memory over
// time. Of a sweep also TTFT, ITL and throughput against load, with the knee.
std::vector<NamedChart> ChartsOf(const Json& result);

// One self-contained HTML page: the figures, and the charts as inline SVG.
std::string ReportHtml(const Json& result);

}  // namespace dunlin::tools::load
