// SPDX-License-Identifier: Apache-2.0
#include "server/observe/metrics/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "server/observe/metrics/model_metrics.h"

namespace dunlin::server {

// One RequestCount, HttpResponseCount or IgnoredCount row.
struct ServerMetrics::Counter {
  explicit Counter(const Metric& metric) : row(metric), counts(metric.name, metric.help, {}) {}

  // By row of Metrics(); null for rows that count no events.
  static std::vector<std::unique_ptr<Counter>> ForTable() {
    std::vector<std::unique_ptr<Counter>> counters;
    for (const Metric& metric : Metrics()) {
      const bool counts = std::holds_alternative<RequestCount>(metric.source) ||
                          std::holds_alternative<HttpResponseCount>(metric.source) ||
                          std::holds_alternative<IgnoredCount>(metric.source);
      counters.push_back(counts ? std::make_unique<Counter>(metric) : nullptr);
    }
    return counters;
  }

  const Metric& row;
  prometheus::Family<prometheus::Counter> counts;
};

namespace {

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

prometheus::MetricType PrometheusType(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

void AddSample(double value, const MetricLabels& labels, prometheus::MetricFamily* family) {
  prometheus::ClientMetric& sample = family->metric.emplace_back();
  for (const auto& [name, text] : labels) sample.label.push_back({name, text});
  sample.gauge.value = value;
  sample.counter.value = value;
}

void AddStatuses(const std::vector<ModelStatus>& statuses, const ModelStatusValue& source,
                 prometheus::MetricFamily* family) {
  for (const ModelStatus& status : statuses) {
    if (source.applies != nullptr && !source.applies(status)) continue;
    MetricLabels labels = source.labels == nullptr ? MetricLabels() : source.labels(status);
    labels["model_name"] = status.name;
    AddSample(source.value(status), labels, family);
  }
}

// One model, as a scrape sees it.
struct ModelSnapshot {
  std::shared_ptr<const ModelMetrics> metrics;
  std::optional<engine::EngineStats> stats;  // none while it is loading
};

}  // namespace

ServerMetrics::ServerMetrics() : start_time_s_(SecondsSince1970()), counters_(Counter::ForTable()) {}

ServerMetrics::~ServerMetrics() = default;

std::shared_ptr<engine::StepObserver> ServerMetrics::AddModel(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Model& entry = models_[name];
  if (entry.metrics == nullptr) entry.metrics = std::make_shared<ModelMetrics>(name);
  return entry.metrics;
}

void ServerMetrics::OnModelAdded(const ModelLease& model) {
  absl::MutexLock lock(&mutex_);
  Model& entry = models_[model->name];
  if (entry.metrics == nullptr) entry.metrics = std::make_shared<ModelMetrics>(model->name);
  entry.lease = model;
}

void ServerMetrics::OnModelRemoved(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  models_.erase(name);
}

void ServerMetrics::WatchEdge(std::function<EdgeSnapshot()> edge) {
  absl::MutexLock lock(&mutex_);
  edge_ = std::move(edge);
}

void ServerMetrics::WatchTracing(std::function<TracingSnapshot()> tracing) {
  absl::MutexLock lock(&mutex_);
  tracing_ = std::move(tracing);
}

void ServerMetrics::WatchModels(std::function<std::vector<ModelStatus>()> models) {
  absl::MutexLock lock(&mutex_);
  statuses_ = std::move(models);
}

std::shared_ptr<ModelMetrics> ServerMetrics::Find(const std::string& model) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = models_.find(model);
  return found == models_.end() ? nullptr : found->second.metrics;
}

void ServerMetrics::OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                                    engine::TimeNs interval) {
  if (const auto metrics = Find(model); metrics != nullptr) metrics->OnTokenInterval(profile, interval);
}

void ServerMetrics::OnFinished(const RequestRecord& record) {
  for (const auto& counter : counters_) {
    const auto* source = counter == nullptr ? nullptr : std::get_if<RequestCount>(&counter->row.source);
    if (source == nullptr) continue;
    if (const auto labels = source->labels(record)) counter->counts.Add(*labels).Increment();
  }
  if (!record.status.ok()) return;
  if (const auto metrics = Find(record.model); metrics != nullptr) metrics->OnServed(record);
}

void ServerMetrics::OnHttpResponse(std::string_view route, int status) {
  for (const auto& counter : counters_) {
    const auto* source = counter == nullptr ? nullptr : std::get_if<HttpResponseCount>(&counter->row.source);
    if (source != nullptr) counter->counts.Add(source->labels({route, status})).Increment();
  }
}

void ServerMetrics::OnIgnored(std::string_view route, const IgnoredNames& names) {
  for (const auto& counter : counters_) {
    const auto* source = counter == nullptr ? nullptr : std::get_if<IgnoredCount>(&counter->row.source);
    if (source != nullptr) counter->counts.Add(source->labels(route)).Increment(double(names.names().size()));
  }
}

std::string ServerMetrics::Render() const {
  ServerSnapshot server;
  server.start_time_s = start_time_s_;
  server.heap = SizeOfHeap();
  std::vector<ModelSnapshot> models;
  std::vector<ModelStatus> statuses;
  {
    absl::MutexLock lock(&mutex_);
    if (edge_) server.edge = edge_();
    if (tracing_) server.tracing = tracing_();
    if (statuses_) statuses = statuses_();
    for (const auto& [name, model] : models_) {
      models.push_back({model.metrics, std::nullopt});
      if (model.lease != nullptr) models.back().stats = model.lease->any_engine()->stats();
    }
  }
  std::vector<prometheus::MetricFamily> families;
  for (size_t row = 0; row < Metrics().size(); ++row) {
    const Metric& metric = Metrics()[row];
    prometheus::MetricFamily family{metric.name, metric.help, PrometheusType(metric.type), {}};
    if (const auto* value = std::get_if<ServerValue>(&metric.source)) {
      if (const double sample = value->value(server); !std::isnan(sample)) AddSample(sample, {}, &family);
    } else if (const auto* info = std::get_if<Info>(&metric.source)) {
      AddSample(1, info->labels(), &family);
    } else if (std::holds_alternative<RpcStarted>(metric.source) || std::holds_alternative<RpcValue>(metric.source)) {
      rpcs_.Collect(row, &family);
    } else if (const auto* of_status = std::get_if<ModelStatusValue>(&metric.source)) {
      AddStatuses(statuses, *of_status, &family);
    } else if (counters_[row] != nullptr) {
      for (prometheus::MetricFamily& counts : counters_[row]->counts.Collect())
        family.metric = std::move(counts.metric);
    } else {
      for (const ModelSnapshot& model : models) {
        model.metrics->Collect(row, model.stats ? &*model.stats : nullptr, &family);
      }
    }
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace dunlin::server
