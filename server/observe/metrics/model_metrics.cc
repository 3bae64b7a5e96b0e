// SPDX-License-Identifier: Apache-2.0
#include "server/observe/metrics/model_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>

#include <string>
#include <utility>
#include <vector>

namespace dunlin::server {
namespace {

constexpr char kModelName[] = "model_name";

bool OfModel(const Metric& metric) {
  return !std::holds_alternative<RpcValue>(metric.source);
}

void AddSample(std::vector<prometheus::ClientMetric::Label> labels, double value, prometheus::MetricFamily* family) {
  prometheus::ClientMetric& sample = family->metric.emplace_back();
  sample.label = std::move(labels);
  sample.gauge.value = value;
  sample.counter.value = value;
}

}  // namespace

// One row: a histogram, or counters by label.
struct ModelMetrics::Series {
  explicit Series(const Metric& row)
      : metric(row),
        histogram(prometheus::Histogram::BucketBoundaries(row.buckets.begin(), row.buckets.end())),
        counts(row.name, row.help, {}) {}

  const Metric& metric;
  prometheus::Histogram histogram;
  prometheus::Family<prometheus::Counter> counts;
};

ModelMetrics::ModelMetrics(const std::string& model_name) : model_name_(model_name) {
  for (const Metric& metric : Metrics()) {
    const bool counted = std::holds_alternative<ModelRequestCount>(metric.source);
    const bool observed = (metric.type == MetricType::kHistogram && OfModel(metric)) || counted;
    series_.push_back(observed ? std::make_unique<Series>(metric) : nullptr);
  }
}

ModelMetrics::~ModelMetrics() = default;

void ModelMetrics::OnStep(int32_t num_tokens, int32_t /*num_sequences*/, engine::TimeNs duration) {
  const StepSample sample{num_tokens, duration};
  for (const auto& series : series_) {
    if (series == nullptr) continue;
    if (const auto* step = std::get_if<StepValue>(&series->metric.source)) {
      series->histogram.Observe(step->value(sample));
    }
  }
}

void ModelMetrics::OnTokenInterval(engine::TimeNs interval) {
  for (const auto& series : series_) {
    if (series == nullptr) continue;
    if (const auto* source = std::get_if<TokenIntervalValue>(&series->metric.source)) {
      series->histogram.Observe(source->value(interval));
    }
  }
}

void ModelMetrics::OnServed(const RequestRecord& record) {
  for (const auto& series : series_) {
    if (series == nullptr) continue;
    if (const auto* count = std::get_if<ModelRequestCount>(&series->metric.source)) {
      MetricLabels labels = count->labels(record);
      labels[kModelName] = model_name_;
      series->counts.Add(labels).Increment();
    } else if (const auto* source = std::get_if<RequestValue>(&series->metric.source)) {
      if (const auto value = source->value(record)) series->histogram.Observe(*value);
    }
  }
}

void ModelMetrics::Collect(size_t row, const engine::EngineStats* stats, prometheus::MetricFamily* family) const {
  const Metric& metric = Metrics()[row];
  if (series_[row] != nullptr && metric.type == MetricType::kHistogram) {
    family->metric.push_back(series_[row]->histogram.Collect());
    family->metric.back().label = {{kModelName, model_name_}};
  } else if (std::holds_alternative<ModelRequestCount>(metric.source)) {
    for (prometheus::MetricFamily& counts : series_[row]->counts.Collect()) {
      for (prometheus::ClientMetric& count : counts.metric) family->metric.push_back(std::move(count));
    }
  } else if (const auto* engine = std::get_if<EngineValue>(&metric.source); engine != nullptr && stats != nullptr) {
    AddSample({{kModelName, model_name_}}, engine->value(*stats), family);
  } else if (const auto* draft = std::get_if<DraftPositionValue>(&metric.source);
             draft != nullptr && stats != nullptr) {
    for (size_t position = 0; position < stats->accepted_at_position.size(); ++position) {
      AddSample({{kModelName, model_name_}, {"position", std::to_string(position)}}, draft->value(*stats, position),
                family);
    }
  }
}

}  // namespace dunlin::server
