// The series that an engine counts itself, read at each scrape.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "engine/model_engine.h"

namespace dunlin::server {

// One engine's snapshot and the name its series carry.
struct EngineSnapshot {
  std::string model_name;
  engine::EngineStats stats;
};

// One family per series, one sample per engine, label model_name.
std::vector<prometheus::MetricFamily> EngineSeries(const std::vector<EngineSnapshot>& engines);

}  // namespace dunlin::server
