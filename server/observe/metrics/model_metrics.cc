// SPDX-License-Identifier: Apache-2.0
#include "server/observe/metrics/model_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"

namespace dunlin::server {
namespace {

constexpr char kModelName[] = "model_name";

bool OfModel(const Metric& metric) {
  return !std::holds_alternative<RpcValue>(metric.source);
}

constexpr size_t kNumProfiles = size_t{kernels::kNumAttentionBackends} * kernels::kNumPrecisions;

size_t ProfileIndex(const engine::ExecutionProfile& profile) {
  return static_cast<size_t>(profile.attention_backend) * kernels::kNumPrecisions +
         static_cast<size_t>(profile.precision);
}

kernels::AttentionBackend BackendAt(size_t profile_index) {
  return static_cast<kernels::AttentionBackend>(profile_index / kernels::kNumPrecisions);
}
kernels::Precision PrecisionAt(size_t profile_index) {
  return static_cast<kernels::Precision>(profile_index % kernels::kNumPrecisions);
}

bool IsByProfile(const Metric& metric) {
  const auto* interval = std::get_if<TokenIntervalValue>(&metric.source);
  const auto* request = std::get_if<RequestValue>(&metric.source);
  return (interval != nullptr && interval->by_profile) || (request != nullptr && request->by_profile);
}

void AddSample(std::vector<prometheus::ClientMetric::Label> labels, double value, prometheus::MetricFamily* family) {
  prometheus::ClientMetric& sample = family->metric.emplace_back();
  sample.label = std::move(labels);
  sample.gauge.value = value;
  sample.counter.value = value;
}

}  // namespace

// One row: a histogram, one for each profile, or counters by label.
struct ModelMetrics::Series {
  explicit Series(const Metric& row) : metric(row), by_profile(IsByProfile(row)), counts(row.name, row.help, {}) {
    const prometheus::Histogram::BucketBoundaries edges(row.buckets.begin(), row.buckets.end());
    for (size_t i = 0; i < (by_profile ? kNumProfiles : 1); ++i) {
      histograms.push_back(std::make_unique<prometheus::Histogram>(edges));
    }
  }

  void Observe(double value) { histograms.front()->Observe(value); }
  void Observe(const engine::ExecutionProfile& profile, double value) {
    histograms[by_profile ? ProfileIndex(profile) : 0]->Observe(value);
  }
  // A profile that has observed nothing has no series.
  void Collect(const std::string& model_name, prometheus::MetricFamily* family) const {
    for (size_t i = 0; i < histograms.size(); ++i) {
      prometheus::ClientMetric sample = histograms[i]->Collect();
      if (by_profile && sample.histogram.sample_count == 0) continue;
      sample.label = {{kModelName, model_name}};
      if (by_profile) {
        sample.label.push_back({"attention_backend", kernels::Name(BackendAt(i))});
        sample.label.push_back({"precision", kernels::Name(PrecisionAt(i))});
      }
      family->metric.push_back(std::move(sample));
    }
  }

  const Metric& metric;
  const bool by_profile;
  std::vector<std::unique_ptr<prometheus::Histogram>> histograms;  // one, or by ProfileIndex
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
      series->Observe(step->value(sample));
    }
  }
}

void ModelMetrics::OnTokenInterval(const engine::ExecutionProfile& profile, engine::TimeNs interval) {
  for (const auto& series : series_) {
    if (series == nullptr) continue;
    if (const auto* source = std::get_if<TokenIntervalValue>(&series->metric.source)) {
      series->Observe(profile, source->value(interval));
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
      if (record.first_scheduled == 0) continue;  // it asked for its model to be in memory, and for nothing else
      const auto value = source->value(record);
      if (!value.has_value() || (series->by_profile && !record.profile.has_value())) continue;
      series->Observe(record.profile.value_or(engine::ExecutionProfile{}), *value);
    }
  }
}

void ModelMetrics::Collect(size_t row, const engine::EngineStats* stats, prometheus::MetricFamily* family) const {
  const Metric& metric = Metrics()[row];
  if (series_[row] != nullptr && metric.type == MetricType::kHistogram) {
    series_[row]->Collect(model_name_, family);
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
