// The series of the edge and of the process, read at each scrape. The process's have the names that Prometheus' own
// client libraries give them.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <vector>

namespace dunlin::server {

struct EdgeSnapshot {
  bool ready = false;  // takes requests: neither loading nor draining
  int32_t requests_in_flight = 0;
  int64_t queued_bytes = 0;  // of requests that are accepted and not yet tokenised
};

std::vector<prometheus::MetricFamily> EdgeSeries(const EdgeSnapshot& edge);

// start_time_s: seconds since 1970 at which the process started.
std::vector<prometheus::MetricFamily> ProcessSeries(double start_time_s);

}  // namespace dunlin::server
