// SPDX-License-Identifier: Apache-2.0
#include "tools/load/result_charts.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tools/load/svg.h"

namespace dunlin::tools::load {
namespace {

// NaN for a missing or null key: charts omit such points.
double At(const Json& json, const std::string& key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>()
                                                     : std::numeric_limits<double>::quiet_NaN();
}

// histograms.<name>: [[low_ms, high_ms, count], ...] as the cumulative percentage at each high_ms.
ChartSeries Distribution(const Json& histogram) {
  ChartSeries series;
  double total = 0;
  for (const Json& bucket : histogram) total += bucket[2].get<double>();
  double seen = 0;
  for (const Json& bucket : histogram) {
    if (series.points.empty()) series.points.emplace_back(bucket[0].get<double>(), 0);
    seen += bucket[2].get<double>();
    series.points.emplace_back(bucket[1].get<double>(), 100 * seen / total);
  }
  return series;
}

NamedChart DistributionChart(const Json& result, const std::string& key, const std::string& title) {
  Chart chart;
  chart.title = title + ", distribution";
  chart.x_label = title + " in ms";
  chart.y_label = "% of all";
  chart.log_x = true;
  chart.series.push_back(Distribution(result["histograms"][key + "_ms"]));
  chart.series.back().name = title;
  return {key + "_distribution", std::move(chart)};
}

NamedChart OverTime(const char* file_name, const char* title, const char* y_label, std::vector<ChartSeries> series) {
  Chart chart;
  chart.title = title;
  chart.x_label = "seconds";
  chart.y_label = y_label;
  chart.series = std::move(series);
  return {file_name, std::move(chart)};
}

// A column of the timeline against seconds.
ChartSeries Column(const Json& timeline, const char* key, const char* name, double scale) {
  ChartSeries series{name, {}};
  if (!timeline.contains(key)) return series;
  const double slot_s = timeline["slot_s"].get<double>();
  double index = 0.5;
  for (const Json& value : timeline[key]) {
    if (value.is_number()) series.points.emplace_back(index * slot_s, value.get<double>() * scale);
    index += 1;
  }
  return series;
}

void AddTimelines(const Json& timeline, std::vector<NamedChart>* charts) {
  const double per_second = 1 / timeline["slot_s"].get<double>();
  charts->push_back(OverTime("timeline_tokens", "Throughput over time", "output tokens/s",
                             {Column(timeline, "output_tokens_per_s", "output tokens/s", 1)}));
  charts->push_back(OverTime(
      "timeline_requests", "Requests over time", "requests/s",
      {Column(timeline, "sent", "sent/s", per_second), Column(timeline, "completed", "completed/s", per_second),
       Column(timeline, "refused", "refused/s", per_second), Column(timeline, "failed", "failed/s", per_second)}));
  charts->push_back(OverTime("timeline_in_flight", "Requests in flight and TTFT over time", "requests, ms",
                             {Column(timeline, "in_flight_max", "requests in flight, maximum", 1),
                              Column(timeline, "mean_ttft_ms", "TTFT, mean, ms", 1)}));
}

void AddServer(const Json& server, std::vector<NamedChart>* charts) {
  const Json& samples = server["samples"];
  const auto column = [&samples](const char* key, const char* name, double scale) {
    ChartSeries series{name, {}};
    for (size_t i = 0; samples.contains(key) && i < samples[key].size(); ++i) {
      series.points.emplace_back(samples["time_s"][i].get<double>(), samples[key][i].get<double>() * scale);
    }
    return series;
  };
  charts->push_back(OverTime("server_memory", "Server memory", "MB", {column("rss_bytes", "resident memory", 1e-6)}));
  charts->push_back(OverTime("server_requests", "Inside the server", "requests, pages",
                             {column("running", "requests running", 1), column("waiting", "requests waiting", 1),
                              column("kv_pages_used", "KV pages in use", 1)}));
}

ChartSeries OverLoad(const Json& steps, const char* key, const char* name) {
  ChartSeries series{name, {}};
  for (const Json& step : steps) series.points.emplace_back(At(step, "load"), At(step, key));
  std::sort(series.points.begin(), series.points.end());
  return series;
}

void AddSweep(const Json& sweep, std::vector<NamedChart>* charts) {
  const std::string unit = sweep["unit"].get<std::string>();
  const Json& steps = sweep["steps"];
  // Past the knee latencies grow a hundredfold, and a linear scale would flatten everything before it.
  const auto chart = [&](const char* file, const char* title, const char* y, std::vector<ChartSeries> series) {
    const bool log_y = std::string_view(y) == "ms";
    Chart drawn{title, unit, y, /*log_x=*/true, log_y, /*dots=*/true, std::move(series), {}};
    if (sweep["knee"].is_number()) drawn.marker = {sweep["knee"].get<double>(), "knee"};
    charts->push_back({file, std::move(drawn)});
  };
  chart("sweep_ttft", "TTFT against load", "ms",
        {OverLoad(steps, "p50_ttft_ms", "p50"), OverLoad(steps, "p90_ttft_ms", "p90"),
         OverLoad(steps, "p99_ttft_ms", "p99")});
  chart("sweep_itl", "ITL against load", "ms",
        {OverLoad(steps, "p50_itl_ms", "p50"), OverLoad(steps, "p90_itl_ms", "p90"),
         OverLoad(steps, "p99_itl_ms", "p99")});
  chart("sweep_throughput", "Throughput against load", "output tokens/s",
        {OverLoad(steps, "output_throughput", "output tokens/s")});
  chart("sweep_goodput", "Goodput against load", "requests/s",
        {OverLoad(steps, "goodput", "goodput"), OverLoad(steps, "request_throughput", "completed")});
}

}  // namespace

std::vector<NamedChart> ChartsOf(const Json& result) {
  std::vector<NamedChart> charts;
  if (result.contains("sweep")) AddSweep(result["sweep"], &charts);
  charts.push_back(DistributionChart(result, "ttft", "TTFT"));
  charts.push_back(DistributionChart(result, "itl", "ITL"));
  AddTimelines(result["timeline"], &charts);
  if (result.contains("server")) AddServer(result["server"], &charts);
  return charts;
}

std::string ReportHtml(const Json& result) {
  const auto word = [&result](const char* key) {
    return result[key].is_string() ? result[key].get<std::string>() : result[key].dump();
  };
  const std::string title = "dunlin load: " + word("model_id") + (word("label").empty() ? "" : ", " + word("label"));
  std::string html = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + EscapeXml(title) +
                     "</title>\n<style>body{font:15px sans-serif;margin:2em auto;max-width:1340px;color:#222}"
                     "pre{background:#f6f6f6;padding:1em;overflow:auto}svg{border:1px solid "
                     "#ddd;margin:4px}</style></head>\n<body><h1>" +
                     EscapeXml(title) + "</h1>\n<p>" +
                     EscapeXml(word("date") + ", " + word("endpoint_type") + ", dataset " + word("dataset") +
                               ", arrivals " + word("arrivals") + ", rate " + word("request_rate") +
                               " requests/s, requests at once " + word("max_concurrency")) +
                     "</p>\n<pre>" + EscapeXml(ResultText(result)) + "</pre>\n";
  for (const NamedChart& named : ChartsOf(result)) html += DrawSvg(named.chart);
  return html + "</body></html>\n";
}

}  // namespace dunlin::tools::load
